"""The baselines: towers and inputs that fit each other, as their sources were published."""

import pytest

from configs import baselines
from xmodal import data
from xmodal.config import UserError
from xmodal.models import make_dual_encoder
from xmodal.training import baseline, preflight

# Of the published weights, which a folder would bring.
FOLDERS = {
    "bow": {"vocab_size": 300, "width": 20, "pool": "mean"},
    "sentence_encoder": {
        "vocab_size": 300, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 8, "max_positions": 64,
        "pool": "mean",
    },
}  # fmt: skip
NORMALIZATIONS = {"inception_v3": "inception", "resnet152": "inception", "simclr": "unit"}
SIZES = {"inception_v3": 299, "resnet152": 224, "simclr": 224}


@pytest.mark.parametrize("name", baselines.NAMES)
def test_one_tower_of_the_published_kind(name):
    config = baselines.get_config(name)
    (side,) = [side for side in ("image", "text") if config.model[side] is not None]
    keywords = dict(config.model[side].items()) | FOLDERS.get(name, {})
    encoder = make_dual_encoder(dict(config.model.items()) | {side: keywords})
    assert encoder.similarity == "cosine"
    inputs = data.parse(config.data)
    if side == "image":
        assert encoder.towers["image"].module.normalization == NORMALIZATIONS[name]
        examples = preflight.make_example_inputs(config.model, inputs)
        assert examples["image"].shape == (1, SIZES[name], SIZES[name], 3)
        assert inputs.image.eval_recipe == ("simclr" if name == "simclr" else "cxc")
        assert inputs.image.augment is None
    else:
        assert inputs.image is None
        assert inputs.text.tokenizer == ("words" if name == "bow" else "wordpiece")


@pytest.mark.parametrize("name", baselines.NAMES)
def test_weights_are_asked_for_first(name):
    side = "text" if name in baselines.TEXT else "image"
    with pytest.raises(UserError, match=rf"config\.towers\.{side} is empty"):
        baseline.evaluate_baseline(baselines.get_config(name), "test")


@pytest.mark.parametrize("argument", ["", "use", "quick"])
def test_unknown_baseline_lists_the_known(argument):
    with pytest.raises(ValueError, match=f"'{argument}' of baselines.py; known: .*simclr"):
        baselines.get_config(argument)
