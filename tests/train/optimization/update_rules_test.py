"""Update rules against torch, optax and a plain NumPy loop."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.core.config import read
from xmodal.train.optimization.update_rules import RULES


def follow(name, options, params, gradients, *, rate=0.1, decay=0.0):
    """The parameters after one update per gradient."""
    rule = read(RULES[name], "config.optimizer.options", options).make(lambda path: decay)
    state, update = rule.init(params), jax.jit(rule.update)
    for gradient in gradients:
        directions, state = update(gradient, state, params)
        params = jax.tree.map(lambda p, d: p - rate * d, params, directions)
    return params


def problem(steps=25):
    rng = np.random.default_rng(0)
    shapes = {"kernel": (3, 5), "bias": (5,)}
    params = {key: jnp.array(rng.normal(size=shape), jnp.float32) for key, shape in shapes.items()}
    gradients = [
        {
            key: jnp.array(rng.normal(size=shape) * math.exp(rng.normal()), jnp.float32)
            for key, shape in shapes.items()
        }
        for _ in range(steps)
    ]
    return params, gradients


@pytest.mark.parametrize(
    ("name", "options", "decay", "make"),
    [
        ("adam", {}, 0.0, lambda t, p: t.Adam(p, 0.1)),
        (
            "adamw",
            {"amsgrad": True},
            0.3,
            lambda t, p: t.AdamW(p, 0.1, weight_decay=0.3, amsgrad=True),
        ),
        ("sgd", {"momentum": 0.9}, 0.0, lambda t, p: t.SGD(p, 0.1, momentum=0.9)),
    ],
)
def test_updates_are_those_of_torch(name, options, decay, make):
    torch = pytest.importorskip("torch")
    params, gradients = problem()
    found = follow(name, options, params, gradients, decay=decay)
    tensors = {k: torch.nn.Parameter(torch.tensor(np.array(v)).double()) for k, v in params.items()}
    rule = make(torch.optim, tensors.values())
    for gradient in gradients:
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(np.array(gradient[key])).double()
        rule.step()
    for key, tensor in tensors.items():
        np.testing.assert_allclose(found[key], tensor.detach().numpy(), rtol=2e-4, atol=2e-5)


def test_eps_may_be_added_before_the_bias_is_corrected():
    """AdamW of pytorch_transformers, whose decay is that of the rate and the weight before."""
    params, gradients = problem()
    eps, decay = 1e-2, 0.05
    options = {"eps": eps, "eps_before_correction": True}
    found = follow("adamw", options, params, gradients, decay=decay)
    for key, weight in params.items():
        weight = np.array(weight, np.float64)
        m, v = np.zeros_like(weight), np.zeros_like(weight)
        for t, gradient in enumerate(gradients, start=1):
            g = np.array(gradient[key], np.float64)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            weight = weight - rate * m / (np.sqrt(v) + eps) - 0.1 * decay * weight
        np.testing.assert_allclose(found[key], weight, rtol=2e-4, atol=2e-5)


def adamp(weight, gradients, *, axis, rate, decay, delta=0.1, decay_ratio=0.1):
    """AdamP of one tensor in float64, channel by channel (Heo et al. 2021, algorithm 1)."""
    weight = np.array(weight, np.float64)
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    projections = []
    for t, gradient in enumerate(gradients, start=1):
        gradient = np.array(gradient, np.float64)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        direction = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        kind = "none"
        if weight.ndim > 1:
            channels = [np.index_exp[:] * axis + (i,) for i in range(weight.shape[axis])]
            for name, parts in (("channel", channels), ("layer", [()])):
                cosines = [
                    abs(np.sum(gradient[p] * weight[p]))
                    / (np.linalg.norm(gradient[p]) * np.linalg.norm(weight[p]) + 1e-30)
                    for p in parts
                ]
                if max(cosines) < delta / math.sqrt(weight[parts[0]].size):
                    kind = name
                    for p in parts:
                        unit = weight[p] / np.linalg.norm(weight[p])
                        direction[p] -= unit * np.sum(unit * direction[p])
                    break
        ratio = 1 if kind == "none" else decay_ratio
        weight = weight - rate * (direction + decay * ratio * weight)
        projections.append(kind)
    return weight, projections


def orthogonal_to(weight, axis, rng, lean):
    """A gradient orthogonal to each channel, or (axis None) to the whole, plus a part along it."""
    axes = tuple(i for i in range(weight.ndim) if i != axis)
    gradient = rng.normal(size=weight.shape)
    along = np.sum(gradient * weight, axes, keepdims=True) / np.sum(weight**2, axes, keepdims=True)
    return (gradient - (1 - lean) * along * weight).astype(np.float32)


@pytest.mark.parametrize(
    ("path", "shape", "axis"),
    [
        ("kernel", (6, 4), 1),
        ("kernel", (3, 3, 2, 5), 3),
        ("depthwise", (3, 3, 5, 1), 2),
        ("bias", (5,), 0),
    ],
)
def test_adamp_is_its_plain_loop(path, shape, axis):
    decay = 0.4
    rng = np.random.default_rng(1)
    start = rng.normal(size=shape).astype(np.float32)
    # The second and third gradients are orthogonal to the first weight. With a small rate, the
    # weight hardly moves, so channels or the layer appear scale-invariant there.
    gradients = [
        rng.normal(size=shape).astype(np.float32),
        orthogonal_to(start, axis, rng, 0.001),
        orthogonal_to(start, None, rng, 0.001),
        rng.normal(size=shape).astype(np.float32),
    ] * 2
    rate = 1e-3
    expected, kinds = adamp(start, gradients, axis=axis, rate=rate, decay=decay)
    assert set(kinds) == ({"none"} if start.ndim == 1 else {"none", "channel", "layer"})
    found = follow(
        "adamp",
        {},
        {path: jnp.array(start)},
        [{path: jnp.array(gradient)} for gradient in gradients],
        rate=rate,
        decay=decay,
    )
    np.testing.assert_allclose(
        (np.array(found[path]) - start) / rate, (expected - start) / rate, rtol=2e-3, atol=2e-3
    )
