"""Settings that may differ between two starts of a run, and errors for others."""

import dataclasses
import shutil

import pytest

from configs import cmcm_clue, cxc
from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.train import run_config
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.compute import Compute
from xmodal.train.inherit import inherit
from xmodal.train.run_changes import check_changes, check_devices, check_metric, differences
from xmodal.train.sections import CheckpointConfig, SelectConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnop"]


def make_config():
    config = tiny.make_config(freeze=["image/projection/"])
    config.optimizer = cxc.skipping_adam(1e-3)
    config.l2 = {"pattern": "text/.*kernel", "scale": 1e-4}
    return config


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """The folder of a run at step 5."""
    folder = str(tmp_path_factory.mktemp("run"))
    state = tiny.start(tiny.make_parts(make_config()))
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(), SelectConfig("m"))
    saver.save(dataclasses.replace(state, step=state.step + 5))
    saver.close()
    run_folder.save_config(folder, make_config(), WORDS)
    return folder


def changed(values, config=None):
    config = (config or make_config()).copy_and_resolve_references()
    with config.unlocked():
        config.update_from_flattened_dict(values)
    return config


def check(run_dir, config, allowed=()):
    return check_changes(run_dir, run_config.read_settings(inherit(config, run_dir)), allowed)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"seed": 1}, "seed: 0 -> 1"),
        ({"batch_size": 32}, "batch_size: 16 -> 32"),
        ({"train_split": "train[:50%]"}, "train_split: 'train' -> 'train[:50%]'"),
        ({"l2": None}, "l2.pattern: 'text/.*kernel' -> absent"),
        ({"optimizer.learning_rate": 0.1}, "optimizer.learning_rate: 0.001 -> 0.1"),
        ({"optimizer.clip_norm": None}, "optimizer.clip_norm: 1.0 -> None"),
        ({"optimizer.skip_outliers": None}, "optimizer.skip_outliers.floor: 0.1 -> absent"),
        ({"optimizer.options.b2": 0.99}, "optimizer.options.b2: 0.999 -> 0.99"),
        ({"optimizer.schedule": {"name": "cosine"}}, "optimizer.schedule.rate: 0.999 -> absent"),
        ({"freeze": []}, "freeze: ['image/projection/'] -> []"),
        ({"tasks.t2t.weight": 0.5}, "tasks.t2t.weight: 0.4 -> 0.5"),
        ({"tasks.i2t.negatives": "pair"}, "tasks.i2t.negatives: 'image' -> 'pair'"),
        ({"model.similarity.name": "cosine"}, "model.similarity.name: 'dot' -> 'cosine'"),
        ({"model.text.encoder.dropout": 0.5}, "model.text.encoder.dropout: absent -> 0.5"),
        ({"data.dataset": "flickr8k"}, "data.dataset: 'crisscrossed_shapes' -> 'flickr8k'"),
        ({"data.captions_per_image": 3}, "data.captions_per_image: 2 -> 3"),
        ({"data.text.augment": {"delete": 0.1}}, "data.text.augment.delete: absent -> 0.1"),
        ({"data.text.max_length": 5}, "data.text.max_length: 6 -> 5"),
        ({"init_from.run": "runs/other"}, "init_from.run: '' -> 'runs/other'"),
        ({"frozen_features.sides": ("image",)}, "frozen_features.sides: [] -> ['image']"),
    ],
)
def test_what_changes_the_learning_is_refused_by_value(run_dir, values, line):
    with pytest.raises(UserError, match="was started with another config") as caught:
        check(run_dir, changed(values))
    assert f"  {line}\n" in str(caught.value)
    assert "None -> absent" not in str(caught.value)
    assert "absent -> None" not in str(caught.value)
    path = line.partition(":")[0]
    found = check(run_dir, changed(values), [path.rpartition(".")[0] or path])
    assert line in found


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"name": "other", "log_every": 1, "checkpoint.every": 2, "checkpoint.keep_last": 9},
        {"select.metric": "shapes/t2t/recall@1", "evals.shapes.every": 1},
        {"evals.more": {"type": "boards", "every": 3}},
        {"data.data_dir": "a", "data.manual_dir": "b", "data.ratings_dir": "c", "data.prefetch": 9},
        {"frozen_features.folder": "elsewhere", "sharding": ((".*", "fsdp"),)},
        {"tasks.i2t.loss.options.engine": "ring", "tasks.i2t.loss.options.chunk_size": 8},
        {"total_steps": 99},
    ],
)
def test_what_leaves_the_learning_alone_may_differ(run_dir, values):
    assert check(run_dir, changed(values)) == []


def test_a_new_run_may_be_anything(tmp_path):
    assert check(str(tmp_path), changed({"seed": 7})) == []


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_length_counts_where_the_rate_ends_with_the_run(name):
    config = changed({"optimizer.schedule": {"name": name}})
    before, now = (run_config.read_settings(changed(v, config)) for v in ({}, {"total_steps": 99}))
    assert differences(before, now) == {"total_steps": (10, 99)}


def test_an_evaluator_counts_where_the_rate_follows_it():
    config = cmcm_clue.get_config("quick")
    before = run_config.read_settings(config)

    def found(values):
        return differences(before, run_config.read_settings(changed(values, config)))

    assert found({"evals.relations.every": 1, "evals.pools.batch_size": 3}) == {}
    assert found({"evals.pools.every": 1}) == {"evals.pools.every": (25, 1)}
    # A default is the same with and without its key.
    assert found({"evals.pools.seed": 0, "evals.pools.directions": ("t2i",)}) == {}
    assert found({"evals.pools.seed": 3}) == {"evals.pools.seed": (0, 3)}
    assert found({"total_steps": 51}) == {"total_steps": (50, 51)}


def test_other_words_cannot_be_allowed(run_dir, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS))
    same = changed({"data.text.vocabulary": str(vocabulary)})
    assert check(run_dir, same) == []
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS[::-1]))
    other = changed({"data.text.vocabulary": str(vocabulary), "data.text.lower_case": False})
    with pytest.raises(
        UserError, match="start another run from its weights with --config.init_"
    ) as e:
        check(run_dir, other, ["data.text"])
    assert f"data.text.vocabulary: '{run_dir}/vocab.txt' -> '{vocabulary}'" in str(e.value)
    assert "data.text.lower_case: True -> False" in str(e.value)


@pytest.mark.parametrize(
    ("path", "near"),
    [("optimizer.learning_rat", "optimizer.learning_rate"), ("optimzer", "optimizer")],
)
def test_an_unknown_path_is_named(run_dir, path, near):
    with pytest.raises(UserError, match=f"--allow_changes={path} is not a path .*mean '{near}'"):
        check(run_dir, make_config(), [path])
    assert check(run_dir, make_config(), ["records", "optimizer.learning_rate", "data"]) == []


def test_only_the_config_that_was_in_use_is_kept(run_dir, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_dir, folder)
    first = (folder / "config.json").read_text()
    for rate in (0.1, 0.2):
        config = changed({"optimizer.learning_rate": rate})
        run_folder.save_config(str(folder), config, WORDS)
        run_folder.save_config(str(folder), config, WORDS)
    assert (folder / "config-5.json").read_text() == first
    assert run_folder.load_run(str(folder)).optimizer.learning_rate == 0.2
    assert sorted(path.name for path in folder.glob("*.*")) == [
        "config-5.json", "config.json", "vocab.txt"
    ]  # fmt: skip


def test_a_metric_that_no_checkpoint_carries(tmp_path):
    folder = str(tmp_path)
    state = tiny.start(tiny.make_parts(make_config()))
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(), SelectConfig("words/old"))
    saver.save(dataclasses.replace(state, step=state.step + 5), {"words/old": 1.0})
    saver.close()

    def check(metric, total_steps):
        values = {"select.metric": metric, "total_steps": total_steps}
        check_metric(folder, run_config.read_settings(changed(values)))

    check("words/old", 5)
    check("words/new", 6)
    with pytest.raises(UserError, match=r"No checkpoint of .* has .*'words/new', .* raise config"):
        check("words/new", 5)


def per_device_config(**changes):
    config = tiny.make_image_config(total_steps=9)
    encoder = {"name": "convnet", "channels": (2,), "units": (0,), "statistics": "per_device"}
    config.model.image.encoder = encoder | changes
    config.data.image.size = 8
    return config


def test_the_number_of_devices_counts_where_each_normalizes_its_own_items(tmp_path):
    folder = str(tmp_path)

    def make(devices, freeze=(), **changes):
        config = per_device_config(**changes)
        config.freeze = freeze
        return tiny.make_parts(config, devices, image=(8, 8, 3))

    def save_step(parts, step):
        state = tiny.start(parts)
        saver = checkpoints.Checkpoints(folder, CheckpointConfig(), SelectConfig())
        saver.save(dataclasses.replace(state, step=state.step + step))
        saver.close()

    four, eight = make(4), make(8)
    assert check_devices(folder, eight) == []
    for step, parts in ((0, eight), (5, four)):
        Compute(step, 16, parts.mesh.size, "cpu", 0).save(folder)
        save_step(parts, step)
    # The start on four devices has made no step yet.
    assert check_devices(folder, eight) == []
    with pytest.raises(UserError, match="on 8 device.s., and here are 4: config.model.image.enc"):
        check_devices(folder, four)
    assert check_devices(folder, four, ["devices"]) == ["devices: 8 -> 4"]
    for changes in ({"statistics": "global"}, {"batch_norm": "running"}):
        assert check_devices(folder, make(4, **changes)) == []
    assert check_devices(folder, make(4, freeze=("image/encoder/",))) == []
    # A run at its end is only evaluated.
    save_step(four, 9)
    assert check_devices(folder, eight) == []
