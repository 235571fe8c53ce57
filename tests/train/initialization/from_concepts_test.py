"""A run's concepts, learned or from a file."""

import json

import numpy as np
import pytest

from configs import cvse
from xmodal import data
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.train.initialization import from_concepts
from xmodal.train.resolve import resolve
from xmodal.train.sections import InitConfig

WORDS = ("circle", "circles", "red")


@pytest.fixture(scope="module")
def parts(few_shapes):
    config = cvse.get_config("quick")
    config.data.data_dir, config.batch_size = few_shapes, 16
    return resolve(config)


@pytest.fixture
def load(parts, tmp_path):
    """The constants of the run with another `init_from`, and a concept file."""

    def load(content=None, **options):
        if content is not None:
            (tmp_path / "concepts.json").write_text(json.dumps(content))
            options["concepts"] = str(tmp_path / "concepts.json")
        given = {**parts.config.init_from.to_dict(), **options}
        source = read(InitConfig, "config.init_from", given)
        return from_concepts.load_constants(
            parts.state_shapes, source, parts.settings.data, "train", 0
        )

    return load


def test_a_file_gives_forms_and_vectors(parts, load, tmp_path):
    concepts = [*WORDS, *(f"w{number}" for number in range(29))]
    content = {
        "concepts": concepts,
        "forms": {"circle": 0, "circles": 0, "red": 2},
        "captions": [1] * 32,
        "joint": [],
    }
    (tmp_path / "glove.txt").write_text("red " + " ".join(["0.5"] * 16) + "\n")
    vectors = {"file": str(tmp_path / "glove.txt"), "oov": "shorten"}
    found = load(content, word_vectors=vectors)
    place = found["image/constants/head/graph/vectors"]
    np.testing.assert_array_equal(place[2], np.full(16, 0.5, np.float32))
    assert place[1].std() > 0
    words = data.load_vocabulary(parts.settings.data)
    table = found["text/constants/head/concept_of_word"]
    assert [table[words.index(word)] for word in ("circle", "red", "a")] == [0, 2, 32]
    given = np.arange(32 * 16).reshape(32, 16).tolist()
    found = load({**content, "vectors": given}, word_vectors=vectors)
    np.testing.assert_array_equal(found["text/constants/head/graph/vectors"], given)
    with pytest.raises(UserError, match=r"vectors of 1 numbers, but .*concept_width is 16"):
        load({**content, "vectors": [[1.0]] * 32})
    with pytest.raises(UserError, match=r"have 1 concepts, but .*head.concepts is 32; set it to 1"):
        load({"concepts": ["a"], "forms": {}, "captions": [1], "joint": []})
