import jax
import numpy as np
import pytest

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
