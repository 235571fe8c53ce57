"""The baselines have matching towers and inputs, as published."""

import pytest

from configs import baselines
from xmodal import data
from xmodal.core.errors import UserError
from xmodal.models import make_dual_encoder
from xmodal.train import published_towers

# Settings of the published weights, which a folder would provide.
FOLDERS = {
    "bow": ({"vocab_size": 300, "width": 20}, {"name": "mean"}),
    "sentence_encoder": (
        {"vocab_size": 300, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 8, "max_positions": 64},
        {"name": "mean"},
    ),
}
NORMALIZATIONS = {"inception_v3": "inception", "resnet152": "inception", "simclr": "unit"}
SIZES = {"inception_v3": 299, "resnet152": 224, "simclr": 224}


@pytest.mark.parametrize("name", baselines.NAMES)
def test_one_tower_of_the_published_kind(name):
    config = baselines.get_config(name)
    (side,) = [side for side in ("image", "text") if config.model[side] is not None]
    keywords, head = FOLDERS.get(name, ({}, None))
    section = config.model[side].to_dict()
    section["encoder"] |= keywords
    section["head"] = head or section["head"]
    encoder = make_dual_encoder(config.model.to_dict() | {side: section})
    assert set(encoder.towers) == {side}
    assert encoder.similarity.name == "cosine"
    inputs = data.parse(config.data.to_dict())
    spec = data.batch_spec(inputs, 2)
    if side == "image":
        assert encoder.towers["image"].module.encoder.config.normalization == NORMALIZATIONS[name]
        assert spec["image"].shape == (2, SIZES[name], SIZES[name], 3)
        assert inputs.image.eval_transform == ("simclr" if name == "simclr" else "cxc")
        assert inputs.image.augment is None
        assert inputs.text is None
    else:
        assert inputs.image is None
        assert "image" not in spec
        assert inputs.text.tokenizer == ("words" if name == "bow" else "wordpiece")


@pytest.mark.parametrize("name", baselines.NAMES)
def test_weights_are_asked_for_first(name):
    side = "text" if name in baselines.TEXT else "image"
    with pytest.raises(UserError, match=rf"config\.init_from\.towers\.{side} is empty"):
        published_towers.build_untrained(baselines.get_config(name))
