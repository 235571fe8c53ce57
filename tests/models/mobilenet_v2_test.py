import jax
import numpy as np
import pytest

from xmodal import models
from xmodal.config import UserError
from xmodal.models import mobilenet_v2

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 33, 40, 3), np.uint8)


@pytest.mark.parametrize(
    ("norm", "total"),
    [
        # As published by keras.applications, and in an archive with 1,001 classes.
        ("global", 2_257_984), ("folded", 3_489_097 - 1281 * 1001),
    ],
)  # fmt: skip
def test_number_of_parameters(norm, total):
    tower = mobilenet_v2.make_tower(batch_norm=norm)
    params, state = jax.eval_shape(tower.init, jax.random.key(0), IMAGES)
    assert sum(leaf.size for leaf in jax.tree.leaves((params, state))) == total
    assert set(state) == (set() if norm == "folded" else {"batch_stats"})


def test_folded_weights_give_what_the_normalised_gave(monkeypatch, random_variables):
    monkeypatch.setattr(mobilenet_v2, "STAGES", mobilenet_v2.STAGES[:2])
    options = {"depthwise": "convolution", "projection": 3}
    normalised = mobilenet_v2.make_tower(remat=True, **options)
    params, state = random_variables(normalised, IMAGES)
    folded = jax.tree.map(np.copy, _fold(params, state["batch_stats"]))
    tower = mobilenet_v2.make_tower(batch_norm="folded", **options)
    expected = jax.jit(normalised.apply)(params, state, IMAGES)[0].vector
    ours, none = jax.jit(tower.apply)(folded, {}, IMAGES)
    assert none == {}
    np.testing.assert_allclose(ours.vector, expected, rtol=1e-4, atol=1e-5)


def _fold(params, stats):
    folded = {}
    for name, child in params.items():
        if name.endswith("_norm"):
            continue
        if f"{name}_norm" in params:
            norm, running = params[f"{name}_norm"], stats[f"{name}_norm"]
            factor = norm["scale"] / np.sqrt(running["var"] + 1e-3)
            bias = norm["bias"] - running["mean"] * factor
            if name == "depthwise":
                folded |= {name: child * factor[:, None], f"{name}_bias": bias}
            else:
                folded[name] = {"kernel": child["kernel"] * factor, "bias": bias}
        elif name.startswith("stage"):
            folded[name] = _fold(child, stats[name])
        else:
            folded[name] = child
    return folded


def test_options_name_what_is_known():
    with pytest.raises(UserError, match="'folded', 'global', 'per_device'"):
        mobilenet_v2.make_tower(batch_norm="none")
    with pytest.raises(UserError, match="'caffe', 'imagenet'"):
        mobilenet_v2.make_tower(normalization="bgr")
    image = {"name": "mobilenet_v2", "batch_norm": "per_device"}
    model = models.make_dual_encoder({"image": image}, models.Devices(4))
    assert model.towers["image"].module.batch_groups == 4
