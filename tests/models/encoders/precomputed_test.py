import jax
import numpy as np
import pytest

from xmodal.models.encoders import precomputed


def _norm(x, name):
    if name == "l2":
        return x / np.linalg.norm(x, axis=-1, keepdims=True)
    if name == "layer_norm":
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x


@pytest.mark.parametrize("input_norm", precomputed.INPUT_NORMS)
@pytest.mark.parametrize("regions", [None, 5])
def test_equals_the_formula(input_norm, regions, random_variables, tower):
    options = {"hidden": (11, 3), "dropout": 0.5, "input_norm": input_norm, "projection": 4}
    made = tower("precomputed", features=7, **options)
    shape = (6, 7) if regions is None else (6, regions, 7)
    features = np.random.default_rng(0).random(shape).astype(np.float16)
    params, state = random_variables(made, {"image": features}, scale=0.5)
    vector = jax.jit(made.apply)(params, state, {"image": features})[0].vector
    x = _norm(features.astype(np.float64), input_norm)
    for layer in (params["encoder"][name] for name in ("hidden1", "hidden2")):
        x = np.maximum(x @ layer["kernel"] + layer["bias"], 0)
    x = x if regions is None else x.mean(1)
    expected = x @ params["projection"]["kernel"] + params["projection"]["bias"]
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)
