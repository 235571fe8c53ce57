import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from xmodal.models.basics import Mode
from xmodal.models.batch_norm import BatchNorm

SHAPES = [(16, 7), (16, 5, 7), (16, 5, 3, 7)]


def _problem(shape=SHAPES[-1]):
    rng = np.random.default_rng(0)
    x = jnp.asarray(3 + rng.normal(size=shape), jnp.float32)
    params = {"scale": rng.normal(size=7), "bias": rng.normal(size=7)}
    stats = {"mean": rng.normal(size=7), "var": 1 + rng.random(7)}
    variables = {"params": params, "batch_stats": stats}
    return x, jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), variables)


def _reference(x, variables, groups):
    """Each group separately in float64; the running statistics use the mean over groups."""
    parts = np.split(np.asarray(x, np.float64), groups)
    means = [part.mean(tuple(range(part.ndim - 1))) for part in parts]
    variances = [part.var(tuple(range(part.ndim - 1))) for part in parts]
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


def _apply(x, variables, groups, mode=Mode.TRAIN, **options):
    norm = BatchNorm(groups, **options)
    apply = jax.jit(lambda variables, x: norm.apply(variables, x, mode, mutable=["batch_stats"]))
    outputs, state = apply(variables, x)
    return outputs, state["batch_stats"]


@pytest.mark.parametrize(
    ("policy", "mode", "uses_batch"),
    [
        ("batch", Mode.EVALUATE, False), ("batch", Mode.FROZEN, False), ("batch", Mode.TRAIN, True),
        ("running", Mode.EVALUATE, False), ("running", Mode.FROZEN, False),
        ("running", Mode.TRAIN, False), ("batch_frozen", Mode.EVALUATE, False),
        ("batch_frozen", Mode.FROZEN, True), ("batch_frozen", Mode.TRAIN, True),
    ],
)  # fmt: skip
def test_policies(policy, mode, uses_batch):
    x, variables = _problem((6, 7))
    outputs, stats = _apply(x, variables, 1, mode, policy=policy)
    trained, moved = _apply(x, variables, 1)
    evaluated, _ = _apply(x, variables, 1, Mode.EVALUATE)
    np.testing.assert_array_equal(outputs, trained if uses_batch else evaluated)
    expected = moved if uses_batch else variables["batch_stats"]
    jax.tree.map(np.testing.assert_array_equal, stats, expected)


@pytest.mark.parametrize("shape", [(6, 7), (5, 3, 7), (4, 3, 2, 7)])
def test_equals_torch(shape):
    """With torch's momentum, epsilon and unbiased running variance; torch is channels-first."""
    torch = pytest.importorskip("torch")
    x, variables = _problem(shape)
    kind = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}[len(shape)]
    norm = kind(shape[-1])
    state = variables["params"] | variables["batch_stats"]
    names = {"weight": "scale", "bias": "bias", "running_mean": "mean", "running_var": "var"}
    loaded = {theirs: torch.tensor(np.array(state[ours])) for theirs, ours in names.items()}
    norm.load_state_dict(loaded, strict=False)
    expected = norm(torch.movedim(torch.tensor(np.array(x)), -1, 1)).detach()
    outputs, stats = _apply(x, variables, 1, momentum=0.9, epsilon=1e-5, unbiased=True)
    np.testing.assert_allclose(outputs, torch.movedim(expected, 1, -1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(stats["mean"], norm.running_mean, rtol=1e-5)
    np.testing.assert_allclose(stats["var"], norm.running_var, rtol=1e-5)


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


def _far(dtype=jnp.float32):
    """Values far from zero, whose means differ between channels, items and halves of an item."""
    rng = np.random.default_rng(2)
    _, variables = _problem()
    means = 3e4 * rng.normal(size=7) + 5 * np.arange(16)[:, None, None, None]
    return jnp.asarray(means + rng.normal(size=SHAPES[-1]), dtype), variables


def _exact_gradient(x, weights, variables, groups):
    """Gradient by x of the sum of weights times outputs, in float64."""
    found = []
    for part, weight in zip(
        *(np.split(np.asarray(each, np.float64), groups) for each in (x, weights)), strict=True
    ):
        axes = tuple(range(part.ndim - 1))
        deviation = np.sqrt(part.var(axes) + 1e-3)
        normed = (part - part.mean(axes)) / deviation
        kept = weight - weight.mean(axes) - normed * (weight * normed).mean(axes)
        found.append(kept * np.asarray(variables["params"]["scale"]) / deviation)
    return np.concatenate(found)


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("devices", [1, 8])
def test_a_large_mean_costs_no_digits(groups, devices):
    x, variables = _far()
    weights = np.random.default_rng(3).normal(size=x.shape).astype(np.float32)
    mesh = jax.make_mesh((devices,), ("data",), axis_types=(AxisType.Auto,))
    x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))

    def run(variance):
        def loss(x):
            outputs, stats = _apply(x, variables, groups, variance=variance)
            return jnp.sum(outputs * weights), (outputs, stats)

        return jax.jit(jax.grad(loss, has_aux=True))(x)

    gradient, (outputs, stats) = run("exact")
    expected, expected_stats = _reference(x, variables, groups)
    wanted = _exact_gradient(x, weights, variables, groups)
    np.testing.assert_allclose(outputs, expected, atol=2e-6)
    np.testing.assert_allclose(gradient, wanted, atol=2e-6 * np.abs(wanted).max())
    for name in ("mean", "var"):
        np.testing.assert_allclose(stats[name], expected_stats[name], rtol=1e-6)
    _, (outputs, _) = run("fast")
    assert np.abs(outputs - expected).max() > 1e-2
