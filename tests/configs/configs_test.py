"""Every experiment builds at its real size, and trains where it has a size for that."""

import importlib
import json
import math
import pathlib
import sys

import jax
import pytest
from absl import flags

from xmodal import binary, main
from xmodal import mesh as mesh_lib
from xmodal.training import checkpoints, loop, preflight, state

FOLDER = pathlib.Path(__file__).parents[2] / "configs"
# Nothing is trained by baselines.py, see baselines_test.py.
NAMES = sorted({path.stem for path in FOLDER.glob("*.py")} - {"common", "baselines"})
ARGUMENTS = {
    "cxc_text_text": ["", "minilm", "quick"],
    "flickr8k": ["", "pretrained", "pretrained_i2t", "pretrained_images"],
    "quickstart": ["", "i2t", "t2t"],
}
VARIANTS = [(name, argument) for name in NAMES for argument in ARGUMENTS.get(name, ["", "quick"])]
ON_SHAPES = [
    (name, argument)
    for name, argument in VARIANTS
    if argument in ("quick", "i2t", "t2t") or name == "quickstart"
]
AS_PUBLISHED = [(name, "") for name, argument in VARIANTS if argument == "quick"]

# Trained parameters of EfficientNet-B4's features (keras.applications), and BERT-Base (Uncased)
# without the pooler's 768 x 768 + 768 of its 109,482,240.
B4, B4_STATISTICS, BERT_BASE = 17_548_616, 125_200, 109_482_240 - 590_592


def get_config(name, argument=""):
    return importlib.import_module(f"configs.{name}").get_config(*filter(None, [argument]))


def count(tree):
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(("name", "argument"), VARIANTS)
def test_builds_for_eight_devices_without_data(name, argument):
    config = get_config(name, argument)
    # 0 follows the vocabulary, which is learnt from the data.
    config.model.text.vocab_size = config.model.text.vocab_size or 300
    assert jax.device_count() == 8
    parts = preflight.build(config, mesh_lib.make_mesh())
    shapes = state.abstract_state(preflight.state_init(parts), parts.mesh, config.sharding)
    # What trains has two moments each, what is frozen none.
    trained = count(shapes.params)
    assert 0 < 2 * trained <= count(shapes.opt_state) < 2 * trained + 100
    if (name, argument) in AS_PUBLISHED:
        assert count(shapes.frozen["text"]) == count(shapes.frozen) == BERT_BASE
        if config.model.image is not None:
            assert count(shapes.params["image"]) == B4
            assert count(shapes.model_state) == B4_STATISTICS


@pytest.mark.parametrize(("name", "argument"), ON_SHAPES)
@pytest.mark.usefixtures("fast_compilation")
def test_small_variant_trains_two_steps(name, argument, few_shapes, tmp_path, capsys):
    config = get_config(name, argument)
    config.total_steps, config.log_every, config.data.data_dir = 2, 1, few_shapes
    if config.optimizer.schedule.name == "cosine":
        config.optimizer.schedule.warmup_steps = 1
    loop.train(config, str(tmp_path))
    assert checkpoints.steps(str(tmp_path)) == [0, 2]
    metrics = json.loads((tmp_path / config.splits.test / "metrics.json").read_text())
    assert config.checkpoint.best_metric in metrics
    assert ("shapes/i2t/recall@10" in metrics) == (config.model.image is not None)
    assert 0 < metrics["shapes/t2t/recall@10"] <= 100
    assert config.name in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted({name for name, argument in VARIANTS if argument}))
def test_unknown_argument_lists_the_known(name):
    with pytest.raises(ValueError, match="'slow'") as raised:
        get_config(name, "slow")
    for argument in filter(None, ARGUMENTS.get(name, ["quick"])):
        assert argument in str(raised.value)


def test_missing_dataset_is_explained_without_a_stack_trace(
    own_flags, tmp_path, monkeypatch, capsys
):
    config = FOLDER / "cxc_multitask.py"
    command = ["main", f"--config={config}", f"--config.data.data_dir={tmp_path}"]
    monkeypatch.setattr(sys, "argv", command)
    flags.FLAGS.unparse_flags()
    with pytest.raises(SystemExit) as raised:
        binary.run(main.main)
    message = raised.value.code
    command = "python -m data_prep.build --dataset=coco_captions"
    for part in ("dataset_coco.json", "val2014.zip", "config.data.manual_dir", command):
        assert part in message
    assert "Traceback" not in message + capsys.readouterr().err
