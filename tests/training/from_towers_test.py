"""Starting towers from converted folders; the model is the tiny multitask one."""

import json
import shutil

import jax
import numpy as np
import pytest
import safetensors.numpy
import tiny_encoder as tiny
from xmodal.models.text_tower import make_tower

from xmodal import data
from xmodal.config import UserError
from xmodal.pretrained.folder import Description, save_tower
from xmodal.pretrained.report import Report
from xmodal.training import checkpoints, init_towers, loop, preflight
from xmodal.training.state import flatten

SIZES = {
    "vocab_size": tiny.WORDS, "width": 8, "depth": 3, "heads": 2, "mlp_dim": 12,
    "max_positions": tiny.TOKENS,
}  # fmt: skip
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnop"]


def save(folder, arrays, description):
    save_tower(folder, arrays, description, Report({}, {}, [], {}))
    return str(folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """(folder, its arrays) of a BERT of three layers."""
    shapes = jax.eval_shape(
        lambda: make_tower(**SIZES).init(jax.random.key(0), 2 * (np.ones((1, 4), np.int32),))
    )
    rng = np.random.default_rng(0)
    arrays = {
        f"params/{path}": rng.normal(size=leaf.shape).astype(np.float32)
        for path, leaf in flatten(shapes[0]).items()
    }
    vocabulary = {"vocab.txt": "\n".join(TOKENS) + "\n"}
    description = Description("bert", {**SIZES, "pool": "mean"}, {"lower_case": True}, vocabulary)
    return save(tmp_path_factory.mktemp("bert") / "text", arrays, description), arrays


def make_config(text="", image="", **changes):
    """The tiny model; `changes` are of its text tower."""
    config = tiny.make_config()
    config.model.text.depth = 3
    config.model.text.update(changes)
    config.init_from.towers.text, config.init_from.towers.image = text, image
    return config


def load(config, fresh=None):
    fresh = fresh or tiny.start(tiny.make_parts(config), seed=2)
    weights = init_towers.load_towers(fresh, config.init_from)
    return fresh, init_towers.place(fresh, weights), weights


@pytest.mark.parametrize("freeze", [[], ["text/bert/"]])
def test_a_tower_comes_and_the_rest_stays(bert, freeze):
    config = make_config(bert[0])
    config.freeze = freeze
    fresh, state, weights = load(config)
    before, after = flatten(fresh.all_params()), flatten(state.all_params())
    for path, leaf in after.items():
        expected = bert[1].get(f"params/{path.removeprefix('text/')}")
        assert (expected is None) == (not path.startswith("text/bert/"))
        np.testing.assert_array_equal(leaf, before[path] if expected is None else expected)
    tiny.assert_identical(state.opt_state, fresh.opt_state)
    homes = jax.tree.map(lambda new, old: new.sharding == old.sharding, state, fresh)
    assert all(jax.tree.leaves(homes))
    count = sum(array.size for array in bert[1].values())
    assert init_towers.describe(fresh, weights, config.init_from) == (
        f"text tower from {bert[0]}: 21 arrays with {count:,} parameters, 0 arrays of running "
        "statistics; at their start: ['text/projection']"
    )


def test_lower_layers_that_are_kept_apart_are_the_first(bert):
    _, state, _ = load(make_config(bert[0], lower_depth=2))
    params = state.params["text"]["bert"]
    expected = bert[1]["params/bert/layers/query/kernel"]
    np.testing.assert_array_equal(params["lower_layers"]["query"]["kernel"], expected[:2])
    np.testing.assert_array_equal(params["layers"]["query"]["kernel"], expected[2:])


def test_running_statistics_come_along(tmp_path):
    keywords = {"width": 0.25, "depth": 0.25}
    config = make_config()
    config.model.image = {"name": "efficientnet", "projection": 8, **keywords}
    config.data.image.size = 32
    fresh = tiny.start(tiny.make_parts(config, devices=1), seed=2)
    named = {f"params/{path}": leaf for path, leaf in flatten(fresh.params["image"]).items()}
    named |= flatten(fresh.model_state["image"])
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.random(leaf.shape, np.float32)
        for name, leaf in named.items()
        if "projection" not in name
    }
    folder = save(tmp_path / "image", arrays, Description("efficientnet", keywords, {}))
    config.init_from.towers.image = folder
    assert set(init_towers.check_towers(config.init_from.towers, config.model)) == {"image"}
    _, state, _ = load(config, fresh)
    after = {f"params/{path}": leaf for path, leaf in flatten(state.params["image"]).items()}
    after |= flatten(state.model_state["image"])
    for name, array in arrays.items():
        np.testing.assert_array_equal(after[name], array)
    assert any(name.startswith("batch_stats/") for name in arrays)
    tiny.assert_identical(state.params["text"], fresh.params["text"])


def test_arrays_that_do_not_fit_are_named(bert, tmp_path):
    def refused(name, message, **changes):
        arrays = {k: v for k, v in (bert[1] | changes).items() if v is not None}
        folder = save(tmp_path / name, arrays, Description("bert", SIZES, {}))
        with pytest.raises(
            UserError, match=f"{name} does not fit the model; 1 arrays.*\n  {message}"
        ):
            load(make_config(folder))

    name = "params/bert/layers/query/bias"
    refused("less", "text/bert/layers/query/bias is missing", **{name: None})
    refused("more", "text/pooler/bias is not in", **{"params/pooler/bias": np.ones(2, np.float32)})
    message = r"text/bert/layers/query/bias is \(3, 8\) in the model but \(4, 8\) in the folder"
    refused("other", message, **{name: np.ones((4, 8), np.float32)})


@pytest.mark.parametrize(
    ("towers", "text", "message"),
    [
        ({"txt": "x"}, {}, r"\['txt'\] in config.init_from.towers; known: \['image', 'text'\]"),
        ({"text": "nowhere"}, {}, "nowhere is no converted tower: nowhere/tower.json is missing"),
        ({"image": "BERT"}, {}, "a tower 'bert', but config.model.image.name is 'precomputed'"),
        ({"text": "BERT"}, {"heads": 4}, r"has heads=2, but config.model.text.heads is 4; set con"),
        ({"text": "BERT"}, {"vocab_size": 21}, "has vocab_size=20, but .*vocab_size is 21; set"),
        ({"text": "BERT"}, {"depth": 2}, "has depth=3, but config.model.text.depth is 2; set con"),
        ({"text": "BERT"}, None, "but config.model.text is None"),
    ],
)
def test_another_tower_than_the_configs(bert, towers, text, message):
    config = make_config(**text or {})
    if text is None:
        config.model.text = None
    towers = {side: folder.replace("BERT", bert[0]) for side, folder in towers.items()}
    with pytest.raises(UserError, match=message):
        init_towers.check_towers(towers, config.model)


def test_the_pooling_and_a_size_that_follows_are_free(bert):
    config = make_config(bert[0], vocab_size=0, pool="first")
    assert set(init_towers.check_towers(config.init_from.towers, config.model)) == {"text"}


def test_the_vocabulary_must_be_the_towers(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "prepare", lambda *args, **kwargs: pytest.fail("asked for data"))
    config = make_config(bert[0])
    for vocabulary, message in (
        ("", f"vocabulary is '', to be learnt .* set it to {bert[0]}/vocab.txt"),
        ("\n".join(TOKENS[:-1]) + "\n", "has 19 word pieces, and they are not the 20 that"),
        (
            "\n".join(TOKENS[:4] + TOKENS[:3:-1]) + "\n",
            "has 20 word pieces, and they are not the 20",
        ),
    ):
        if vocabulary:
            (tmp_path / "vocab.txt").write_text(vocabulary)
            config.data.text.vocabulary = str(tmp_path / "vocab.txt")
        with pytest.raises(UserError, match=message):
            preflight.assemble(config)
    config.data.text.vocabulary = f"{bert[0]}/vocab.txt"
    preflight.check_start(config)
    config.data.text.lower_case = False
    with pytest.raises(UserError, match="wants config.data.text.lower_case=True, not False"):
        preflight.check_start(config)


def test_a_run_that_goes_on_needs_no_folder(monkeypatch):
    config = make_config("gone")
    monkeypatch.setattr(data, "prepare", lambda *args, **kwargs: (_ for _ in ()).throw(KeyError()))
    with pytest.raises(UserError, match="gone is no converted tower"):
        preflight.assemble(config)
    with pytest.raises(KeyError):
        preflight.assemble(config, starts=False)


def test_together_with_a_run(bert, tmp_path):
    source = make_config()
    other = tiny.start(tiny.make_parts(source), seed=5)
    run = str(tmp_path / "run")
    saver = checkpoints.Checkpoints(run, {"every": 1, "keep_last": 1, "best_metric": "m"})
    saver.save(other)
    saver.close()
    config = make_config(bert[0])
    config.init_from.run, config.init_from.step = run, "latest"
    config.init_from.optimizer = False
    parts = tiny.make_parts(config)
    with pytest.raises(UserError, match="takes text/bert/.* brings it too: narrow include"):
        loop.starting_state(parts, str(tmp_path / "new"))
    config.init_from.include = ["image/", "text/projection"]
    state = loop.starting_state(parts, str(tmp_path / "new"))
    tiny.assert_identical(state.params["image"], other.params["image"])
    tiny.assert_identical(state.params["text"]["projection"], other.params["text"]["projection"])
    np.testing.assert_array_equal(
        state.params["text"]["bert"]["word_embeddings"], bert[1]["params/bert/word_embeddings"]
    )


def test_a_folder_of_another_kind_of_file(bert, tmp_path):
    (tmp_path / "tower.json").write_text(json.dumps({"name": "bert"}))
    safetensors.numpy.save_file({"x": np.ones(1)}, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="tower.json is damaged"):
        init_towers.check_towers({"text": str(tmp_path)}, make_config().model)


@pytest.mark.parametrize(("kept", "message"), [(-1, "bytes instead of"), (5, "cannot be read")])
def test_weights_that_are_cut_off_are_found_before_the_start(bert, tmp_path, kept, message):
    folder = tmp_path / "text"
    shutil.copytree(bert[0], folder)
    path = folder / "weights.safetensors"
    config = make_config(str(folder))
    init_towers.check_towers(config.init_from.towers, config.model)  # whole
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match=f"weights.safetensors .*{message}"):
        init_towers.check_towers(config.init_from.towers, config.model)
