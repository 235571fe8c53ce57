import jax
import numpy as np

from xmodal.models.encoders import mobilenet_v2

IMAGES = {"image": np.random.default_rng(0).integers(0, 256, (4, 33, 40, 3), np.uint8)}


def test_folded_weights_equal_the_normalized(monkeypatch, random_variables, tower):
    monkeypatch.setattr(mobilenet_v2, "STAGES", mobilenet_v2.STAGES[:2])
    options = {"depthwise": "convolution", "projection": 3}
    normalized = tower("mobilenet_v2", remat=True, **options)
    params, state = random_variables(normalized, IMAGES)
    folded = jax.tree.map(np.copy, _fold(params, state["batch_stats"]))
    made = tower("mobilenet_v2", folded=True, **options)
    expected = jax.jit(normalized.apply)(params, state, IMAGES)[0].vector
    ours, none = jax.jit(made.apply)(folded, {}, IMAGES)
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
        elif name.startswith(("stage", "encoder")):
            folded[name] = _fold(child, stats[name])
        else:
            folded[name] = child
    return folded
