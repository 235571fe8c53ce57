"""A run's word table from a published file, and its concepts, learned or from a file."""

import json

import jax
import numpy as np
import pytest

from configs import cvse
from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.train.initialization import from_words
from xmodal.train.resolve import resolve
from xmodal.train.sections import InitConfig, WordVectorsConfig
from xmodal.train.tree import TrainState, flatten

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "red", "t-shirt", "circle", "zzz"]


@pytest.fixture
def fill(tmp_path):
    """Fills a random table of width 3 from a file with the given lines."""

    def fill(*lines, frozen=False, **options):
        (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n")
        table = jax.device_put(RANDOM, mesh_lib.replicated(mesh_lib.make_mesh()))
        tree = {"text": {"encoder": {"table": table, "other": table}}}
        state = TrainState(0, {} if frozen else tree, tree if frozen else {}, {}, ())
        source = WordVectorsConfig(str(tmp_path / "glove.txt"), **options)
        return flatten(from_words.fill_table(state, source, WORDS).all_params())

    return fill


RANDOM = np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32)
CONCEPTS = ("circle", "circles", "red")
LINES = "red 1 2 3", "tshirt 4 5 6", "blue 7 8 9"


@pytest.mark.parametrize("frozen", [False, True])
def test_found_words_take_their_vectors_and_others_stay(fill, frozen):
    found = fill(*LINES, frozen=frozen)
    expected = RANDOM.copy()
    expected[4], expected[5] = [1, 2, 3], [4, 5, 6]
    np.testing.assert_array_equal(found["text/encoder/table"], expected)
    np.testing.assert_array_equal(found["text/encoder/other"], RANDOM)
    expected[5] = RANDOM[5]
    np.testing.assert_array_equal(fill(*LINES, oov="random")["text/encoder/table"], expected)


def test_vectors_of_another_width_are_refused(fill):
    with pytest.raises(UserError, match="vectors of 2 numbers for 1 words .* a table of 3"):
        fill("red 7 8")


@pytest.fixture(scope="module")
def parts(few_shapes):
    config = cvse.get_config("quick")
    config.data.data_dir, config.batch_size = few_shapes, 16
    return resolve(config)


@pytest.fixture
def load(parts, tmp_path):
    """The constants of the run with another `init_from`, and a concept file."""
    state = jax.tree.map(
        lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype), leaf.sharding),
        parts.state_shapes,
    )

    def load(content=None, **options):
        if content is not None:
            (tmp_path / "concepts.json").write_text(json.dumps(content))
            options["concepts"] = str(tmp_path / "concepts.json")
        given = {**parts.config.init_from.to_dict(), **options}
        source = read(InitConfig, "config.init_from", given)
        filled = from_words.fill_concepts(state, source, parts.settings.data, "train", 0)
        return flatten(filled.model_state)

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
