import jax
import numpy as np
import pytest

from xmodal.base.config import UserError
from xmodal.models import Embedding, Mode
from xmodal.models.projection import make_projection


def _unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 5)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
def test_equals_the_formula(shape, bias, normalize):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    config = {
        "width": 7, "bias": bias, "batch_norm": True, "normalize": normalize,
        "normalize_input": True,
    }  # fmt: skip
    module = make_projection("projection", config)
    embedding = Embedding(x, extras={"attention": x})
    variables = jax.jit(module.init, static_argnums=2)(jax.random.key(0), embedding, Mode.EVALUATE)
    assert ("bias" in variables["params"]) == bias
    run = jax.jit(lambda *given: module.apply(*given, Mode.TRAIN, mutable=["batch_stats"]))
    result, _ = run(variables, embedding)
    assert result.vector.shape == (*shape[:-1], 7)
    axes = tuple(range(len(shape) - 1))
    y = _unit(x)
    y = (y - y.mean(axes)) / np.sqrt(y.var(axes) + 1e-5) @ variables["params"]["kernel"]
    np.testing.assert_allclose(result.vector, _unit(y) if normalize else y, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result.extras["attention"], x)


@pytest.mark.parametrize(
    ("init", "spread"), [("xavier", (6 / 1100) ** 0.5), ("torch", 1000**-0.5), ("he", None)]
)
def test_initial_kernels(init, spread):
    module = make_projection("projection", {"width": 100, "init": init})
    embedding = Embedding(np.ones((1, 1000), np.float32))
    params = module.init(jax.random.key(0), embedding, Mode.EVALUATE)["params"]
    assert not np.any(params["bias"])
    kernel = np.asarray(params["kernel"])
    if spread is None:
        assert kernel.std() == pytest.approx((2 / 1000) ** 0.5, rel=0.03)
    else:
        assert np.abs(kernel).max() == pytest.approx(spread, rel=0.01)


def test_absolute_values_come_last():
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    module = make_projection("projection", {"normalize": True, "absolute": True})
    found = module.apply({}, Embedding(x), Mode.EVALUATE).vector
    np.testing.assert_allclose(found, np.abs(_unit(x)), rtol=1e-6)


def test_none_and_mistakes():
    assert make_projection("projection", None) is None
    with pytest.raises(UserError, match="projection.init; known: .'he', 'lecun', 'torch', 'xavier"):
        make_projection("projection", {"init": "glorot"})
