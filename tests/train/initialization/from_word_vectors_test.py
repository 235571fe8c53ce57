"""A run's word table from a published file."""

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from configs import pcme
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.train.inherit import inherit
from xmodal.train.initialization import from_word_vectors
from xmodal.train.optimization import run_lengths
from xmodal.train.resolve import build_run
from xmodal.train.tree import TrainState, flatten

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "red", "t-shirt", "circle", "zzz"]


def make_config(tmp_path, lines=("red 1 2 3", "tshirt 4 5 6", "blue 7 8 9")):
    config = pcme.get_config("quick")
    config.model.text.encoder.update({"vocab_size": len(WORDS), "embedding_width": 3})
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n")
    config.data.text.vocabulary = str(tmp_path / "vocab.txt")
    config.init_from.word_vectors.file = str(tmp_path / "glove.txt")
    return ConfigDict(run_lengths.resolve_epochs(config.to_dict(), 1))


def load(config):
    parts = build_run(config, mesh_lib.make_mesh(jax.devices()[:1]))
    shapes = parts.state_shapes
    settings = parts.settings
    return shapes, from_word_vectors.load_rows(shapes, settings.init_from, settings.data)


@pytest.mark.parametrize("frozen", [False, True])
def test_found_words_take_their_vectors_and_others_stay(tmp_path, frozen):
    config = make_config(tmp_path)
    inherit(config)
    shapes, rows = load(config)
    table = flatten(shapes.all_params())[from_word_vectors.TABLE]
    random = np.random.default_rng(0).normal(size=table.shape).astype(np.float32)
    placed = jax.device_put(random, table.sharding)
    tree = {"text": {"encoder": {"table": placed, "other": placed}}}
    state = TrainState(0, {} if frozen else tree, tree if frozen else {}, {}, ())
    found = flatten(from_word_vectors.place(state, rows).all_params())
    expected = random.copy()
    expected[4], expected[5] = [1, 2, 3], [4, 5, 6]
    np.testing.assert_array_equal(found["text/encoder/table"], expected)
    np.testing.assert_array_equal(found["text/encoder/other"], random)
    # The rule for words out of vocabulary, by name.
    config.init_from.word_vectors.oov = "random"
    assert list(load(config)[1]) == [4]


def test_what_does_not_fit_the_table(tmp_path):
    with pytest.raises(UserError, match="has none of the 8 words of the vocabulary"):
        load(make_config(tmp_path, ["blue 7 8 9"]))
    with pytest.raises(UserError, match="vectors of 2 numbers, but .* a table of 3"):
        load(make_config(tmp_path, ["red 7 8"]))
