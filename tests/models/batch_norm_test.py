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
