import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from xmodal.models.batch_norm import BatchNorm

SHAPE = (16, 5, 3, 7)


def _problem():
    rng = np.random.default_rng(0)
    x = jnp.asarray(3 + rng.normal(size=SHAPE), jnp.float32)
    params = {"scale": rng.normal(size=7), "bias": rng.normal(size=7)}
    stats = {"mean": rng.normal(size=7), "var": 1 + rng.random(7)}
    variables = {"params": params, "batch_stats": stats}
    return x, jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), variables)


def _reference(x, variables, groups):
    """Each group on its own in float64; the running statistics take the mean over the groups."""
    parts = np.split(np.asarray(x, np.float64), groups)
    means = [part.mean((0, 1, 2)) for part in parts]
    variances = [part.var((0, 1, 2)) for part in parts]
    scale, bias = (np.asarray(variables["params"][name]) for name in ("scale", "bias"))
    outputs = [
        (part - mean) / np.sqrt(var + 1e-3) * scale + bias
        for part, mean, var in zip(parts, means, variances, strict=True)
    ]
    old = variables["batch_stats"]
    new = {
        "mean": 0.99 * old["mean"] + 0.01 * np.mean(means, axis=0),
        "var": 0.99 * old["var"] + 0.01 * np.mean(variances, axis=0),
    }
    return np.concatenate(outputs), new


def _apply(x, variables, groups):
    outputs, state = BatchNorm(groups).apply(variables, x, train=True, mutable=["batch_stats"])
    return outputs, state["batch_stats"]


@pytest.mark.parametrize("groups", [1, 2, 8, 16])
def test_training_uses_the_statistics_of_each_group(groups):
    x, variables = _problem()
    outputs, stats = _apply(x, variables, groups)
    expected, expected_stats = _reference(x, variables, groups)
    np.testing.assert_allclose(outputs, expected, atol=1e-4)
    for name in ("mean", "var"):
        np.testing.assert_allclose(stats[name], expected_stats[name], rtol=1e-5)


def test_evaluation_uses_the_running_statistics():
    x, variables = _problem()
    outputs = BatchNorm(4).apply(variables, x, train=False)
    stats, params = variables["batch_stats"], variables["params"]
    expected = (x - stats["mean"]) / np.sqrt(stats["var"] + 1e-3) * params["scale"] + params["bias"]
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 8])
def test_a_sharded_batch_equals_one_device(groups):
    x, variables = _problem()

    def loss(variables, x):
        outputs, stats = _apply(x, variables, groups)
        return jnp.sum(jnp.sin(outputs)), stats

    step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    sharded = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    replicated = jax.device_put(variables, NamedSharding(mesh, PartitionSpec()))
    compiled = step.lower(replicated, sharded).compile()
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5),
        step(variables, x),
        compiled(replicated, sharded),
    )
    forward = jax.jit(lambda variables, x: _apply(x, variables, groups)[0])
    communicates = "all-reduce" in forward.lower(replicated, sharded).compile().as_text()
    assert communicates == (groups == 1)


def test_bfloat16_statistics_are_float32():
    x, variables = _problem()
    outputs, stats = _apply(x.astype(jnp.bfloat16), variables, 1)
    assert outputs.dtype == jnp.bfloat16
    exact = np.asarray(x.astype(jnp.bfloat16), np.float64)
    expected = 0.99 * variables["batch_stats"]["var"] + 0.01 * exact.var((0, 1, 2))
    assert stats["var"].dtype == jnp.float32
    np.testing.assert_allclose(stats["var"], expected, rtol=1e-5)


def test_a_batch_that_does_not_split_is_an_error():
    x, variables = _problem()
    with pytest.raises(ValueError, match="batch of 16 does not split into 3 equal groups"):
        _apply(x, variables, 3)
