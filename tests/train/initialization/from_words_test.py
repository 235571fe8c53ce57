"""A run's word table from a published file, and its concepts, learned or from a file."""

import json

import numpy as np
import pytest

from configs import cvse
from xmodal import data
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.train import start
from xmodal.train.resolve import resolve
from xmodal.train.sections import InitConfig, WordVectorsConfig
from xmodal.train.tree import TrainState

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "red", "t-shirt", "circle", "zzz"]


RANDOM = np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32)
CONCEPTS = ("circle", "circles", "red")
LINES = "red 1 2 3", "tshirt 4 5 6", "blue 7 8 9"


@pytest.fixture
def load_rows(tmp_path, monkeypatch):
    """Reads a file with the given lines for a table of width 3."""

    def load(*lines, **options):
        (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n")
        state = TrainState(0, {"text": {"encoder": {"table": RANDOM}}}, {}, {}, ())
        monkeypatch.setattr(data, "load_vocabulary", lambda *_: WORDS)
        source = WordVectorsConfig(str(tmp_path / "glove.txt"), **options)
        return start.load_rows(state, source, None, "train")

    return load


def test_words_take_their_vectors(load_rows):
    found = load_rows(*LINES)
    assert list(found) == [4, 5]
    np.testing.assert_array_equal(found[5], [4, 5, 6])
    with pytest.raises(UserError, match="vectors of 2 numbers for 1 words .* a table of 3"):
        load_rows("red 7 8")


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
        shapes, config = parts.state_shapes, parts.settings.data
        return start.load_constants(shapes, source, config, "train", 0)

    return load


def test_a_file_gives_forms_and_vectors(parts, load, tmp_path):
    concepts = [*CONCEPTS, *(f"w{number}" for number in range(29))]
    content = {
        "concepts": concepts,
        "forms": {"circle": 0, "circles": 0, "red": 2},
        "captions": [1] * 32,
        "joint": [],
    }
    (tmp_path / "glove.txt").write_text("red " + " ".join(["0.5"] * 16) + "\n")
    vectors = {"file": str(tmp_path / "glove.txt")}
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
    with pytest.raises(UserError, match=r"have 1 concepts, but .*head.concepts is 32; set it to 1"):
        load({"concepts": ["a"], "forms": {}, "captions": [1], "joint": []})
