"""Settings that may differ between two starts of a run, and errors for others."""

import dataclasses

import pytest

from configs import cmcm_clue, cxc
from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.train import run_config
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.inherit import inherit
from xmodal.train.resolve import check_changes, differences
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig

RECORDS = {"train": {"tiny train": "12ab"}, "examples": 30, "devices": 8}
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
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(), BestCheckpointConfig("m"))
    saver.save(dataclasses.replace(state, step=state.step + 5))
    saver.close()
    run_folder.save_config(folder, make_config(), WORDS)
    return folder


def changed(values, config=None):
    config = (config or make_config()).copy_and_resolve_references()
    with config.unlocked():
        config.update_from_flattened_dict(values)
    return config


def check(run_dir, config, allowed=(), **records):
    settings = run_config.read_settings(inherit(config, run_dir))
    return check_changes(run_dir, settings, RECORDS | records, allowed)


@pytest.mark.parametrize(
    ("encoder", "counts"),
    [({}, True), ({"statistics": "global"}, False)],
)
def test_the_number_of_devices_counts_where_each_normalizes_its_own_items(
    tmp_path, encoder, counts
):
    config = tiny.make_image_config(total_steps=9)
    given = {"name": "convnet", "channels": (2,), "units": (0,), "statistics": "per_device"}
    config.model.image.encoder = given | encoder
    config.data.image.size = 8
    state = tiny.start(tiny.make_parts(config, 4, image=(8, 8, 3)))
    folder = str(tmp_path)
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(), BestCheckpointConfig("m"))
    saver.save(dataclasses.replace(state, step=state.step + 5))
    saver.close()
    run_folder.save_config(folder, config)
    run_folder.save_records(folder, RECORDS)
    assert check(folder, config) == []
    if not counts:
        assert check(folder, config, devices=4) == []
        return
    with pytest.raises(UserError, match="devices: 8 -> 4"):
        check(folder, config, devices=4)
    assert check(folder, config, ["devices"], devices=4) == ["devices: 8 -> 4"]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"seed": 1}, "seed: 0 -> 1"),
        ({"l2": None}, "l2.pattern: 'text/.*kernel' -> None"),
        ({"optimizer.schedule": {"name": "cosine"}}, "optimizer.schedule.rate: 0.999 -> None"),
    ],
)
def test_what_changes_the_learning_is_refused_by_value(run_dir, values, line):
    with pytest.raises(UserError, match="was started with another config") as caught:
        check(run_dir, changed(values))
    assert f"  {line}\n" in str(caught.value)
    path = line.partition(":")[0]
    found = check(run_dir, changed(values), [path.rpartition(".")[0] or path])
    assert line in found


def test_what_leaves_the_learning_alone_may_differ(run_dir):
    values = {
        "name": "other", "checkpoint.keep_last": 9, "best_checkpoint.metric": "shapes/t2t/recall@1",
        "evals.more": {"type": "benchmarks", "every": 3}, "data.data_dir": "a", "total_steps": 99,
        "frozen_features.folder": "elsewhere", "sharding": ((".*", "fsdp"),),
        "tasks.i2t.loss.options.engine": "ring", "mesh.fsdp": 2, "data.workers": 2,
    }  # fmt: skip
    assert check(run_dir, changed(values)) == []


def test_an_evaluator_counts_where_the_rate_follows_it():
    config = cmcm_clue.get_config("quick")
    before = run_config.read_settings(config)

    def found(values):
        return differences(before, run_config.read_settings(changed(values, config)))

    assert found({"evals.relations.every": 1, "evals.pools.batch_size": 3}) == {}
    assert found({"evals.pools.every": 1}) == {"evals.pools.every": (25, 1)}
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


def test_other_records_must_be_allowed(run_dir):
    run_folder.save_records(run_dir, RECORDS)
    with pytest.raises(UserError, match=r"  records: tiny train 12ab \(30 .* -> .* 12ab \(31 ex"):
        check(run_dir, make_config(), examples=31)
    found = check(run_dir, make_config(), ["records"], train={"tiny train": "34cd"})
    assert found == ["records: tiny train 12ab (30 examples) -> tiny train 34cd (30 examples)"]
