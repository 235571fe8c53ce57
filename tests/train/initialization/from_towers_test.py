"""Starting towers from converted folders; the model is the tiny multitask one."""

import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models.encoders.position_resize import resize_grid_positions, resize_text_positions
from xmodal.models.tower import make_tower
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import Description, save_folder
from xmodal.train import run_config
from xmodal.train.initialization import from_towers
from xmodal.train.sections import InitConfig
from xmodal.train.tree import TrainState, replace_arrays

BERT = {
    "name": "bert", "vocab_size": tiny.WORDS, "width": 8, "depth": 3, "heads": 2, "mlp_dim": 12,
    "max_positions": tiny.TOKENS,
}  # fmt: skip
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnop"]


def save(folder, arrays, description):
    save_folder(folder, arrays, description, Report({}, {}, [], {}))
    return str(folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """(folder, its arrays) of a three-layer BERT."""
    tower = make_tower("bert", {"encoder": BERT, "head": {"name": "mean"}})
    ids = np.ones((1, 4), np.int32)
    inputs = {"text_ids": ids, "text_mask": ids}
    shapes, _ = jax.eval_shape(lambda: tower.init(jax.random.key(0), inputs))
    rng = np.random.default_rng(0)
    arrays = {
        f"params/{path}": rng.normal(size=leaf.shape).astype(np.float32)
        for path, leaf in leaves_by_path(shapes).items()
    }
    vocabulary = {"vocab.txt": ("\n".join(TOKENS) + "\n").encode()}
    preprocessing = {"tokenizer": "wordpiece", "lower_case": True}
    description = Description(BERT, {"name": "mean"}, preprocessing, vocabulary)
    return save(tmp_path_factory.mktemp("bert") / "text", arrays, description), arrays


def source_of(config):
    return run_config.read_settings(config).init_from


def load(config, fresh=None):
    fresh = fresh or tiny.start(tiny.make_parts(config), seed=2)
    weights = from_towers.load_towers(fresh, source_of(config))
    return fresh, replace_arrays(fresh, weights), weights


@pytest.mark.parametrize("freeze", [[], ["text/encoder/"]])
def test_a_tower_comes_and_the_rest_stays(bert, freeze, caplog):
    caplog.set_level("INFO", logger="absl")
    config = tiny.make_config_with_towers(bert[0])
    config.freeze = freeze
    with caplog.at_level("INFO"):
        fresh, state, _ = load(config)
    before, after = leaves_by_path(fresh.all_params()), leaves_by_path(state.all_params())
    for path, leaf in after.items():
        expected = bert[1].get(f"params/{path.removeprefix('text/')}")
        assert (expected is None) == (not path.startswith("text/encoder/"))
        np.testing.assert_array_equal(leaf, before[path] if expected is None else expected)
    tiny.assert_identical(state.opt_state, fresh.opt_state)
    same = jax.tree.map(lambda new, old: new.sharding == old.sharding, state, fresh)
    assert all(jax.tree.leaves(same))
    assert "21 arrays; at their initial values: ['text/projection']" in caplog.text


def test_lower_layers_that_are_kept_apart_are_the_first(bert):
    _, state, _ = load(tiny.make_config_with_towers(bert[0], lower_depth=2))
    params = state.params["text"]["encoder"]
    expected = bert[1]["params/encoder/layers/query/kernel"]
    np.testing.assert_array_equal(params["lower_layers"]["query"]["kernel"], expected[:2])
    np.testing.assert_array_equal(params["layers"]["query"]["kernel"], expected[2:])


def test_arrays_that_do_not_fit_are_named(bert, tmp_path):
    name = "params/encoder/layers/query/bias"
    arrays = bert[1] | {name: np.ones((4, 8), np.float32), "params/pooler/bias": np.ones(2)}
    folder = save(tmp_path / "other", arrays, Description(BERT, None, {}))
    with pytest.raises(UserError, match="other does not fit the model; 2 arrays") as error:
        load(tiny.make_config_with_towers(folder))
    assert "text/encoder/layers/query/bias: (3, 8) here, (4, 8) there" in str(error.value)
    assert "text/pooler/bias: missing here, (2,) there" in str(error.value)


VIT = {
    "name": "vit", "patch": 4, "width": 6, "depth": 1, "heads": 1, "mlp_dim": 5,
    "class_token": True, "position_resize": "bicubic",
}  # fmt: skip
WORDS = {
    "name": "text_transformer", "vocab_size": 9, "width": 6, "depth": 1, "heads": 1, "mlp_dim": 5,
    "max_positions": 12, "position_resize": "linear",
}  # fmt: skip
TEXTS = {name: np.ones((1, 4), np.int32) for name in ("text_ids", "text_mask")}


def shapes_of(encoder, inputs):
    tower = make_tower("tower", {"encoder": encoder, "head": {"name": "mean"}})
    return jax.eval_shape(lambda: tower.init(jax.random.key(0), inputs))[0]


def pixels(height, width):
    return {"image": np.zeros((1, height, width, 3), np.uint8)}


def test_positions_are_resampled_to_another_size_of_images_and_texts(tmp_path):
    rng, folders, given = np.random.default_rng(0), {}, {}
    for modality, encoder, inputs in (("image", VIT, pixels(12, 12)), ("text", WORDS, TEXTS)):
        given[modality] = {
            f"params/{path}": rng.normal(size=leaf.shape).astype(np.float32)
            for path, leaf in leaves_by_path(shapes_of(encoder, inputs)).items()
        }
        description = Description(encoder, None, {"max_length": 12})
        folders[modality] = save(tmp_path / modality, given[modality], description)
    source = read(InitConfig, "config.init_from", {"towers": folders})

    def load_sizes(height, width, longest):
        text = {**WORDS, "max_positions": longest}
        params = {"image": shapes_of(VIT, pixels(height, width)), "text": shapes_of(text, TEXTS)}
        state = TrainState(np.int32(0), params, {}, {}, {})
        return from_towers.load_towers(state, source)

    weights = load_sizes(20, 20, 30)
    name = "encoder/position_embeddings"
    found = {modality: weights[f"{modality}/{name}"] for modality in folders}
    expected = resize_grid_positions(given["image"][f"params/{name}"], 26, "bicubic", 1)
    np.testing.assert_array_equal(found["image"], expected)
    expected = resize_text_positions(given["text"][f"params/{name}"], 30, "linear")
    np.testing.assert_array_equal(found["text"], expected)
    with pytest.raises(UserError, match=r"position_embeddings: \(7, 6\) here, \(10, 6\) there"):
        load_sizes(8, 12, 12)
