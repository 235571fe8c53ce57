"""All engines agree on any number of devices; `losses_test` has slow loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.losses import engine, terms

MARGIN = 0.7
TERMS = {
    "normalizer": terms.Term(lambda logits, _: logits, terms.LOG_SUM_EXP),
    "hardest": terms.Term(lambda logits, _: logits, terms.MAXIMUM),
    "hinges": terms.Term(lambda logits, p: jax.nn.relu(MARGIN + logits - p), terms.SUM),
}


def compute_logits(left, right, params):
    return params["scale"] * left @ right.T


def make_batch(size):
    """A batch with groups of equal ids."""
    rng = np.random.default_rng(0)
    # Products of small integers are exact, so ties are ties in every engine.
    left, right = rng.integers(-3, 4, size=(2, size, 3)).astype(np.float32)
    ids = rng.integers(size // 2, size=size).astype(np.int32)
    return {"left": left, "right": right, "ids": ids}


def reduce_logits(batch, params, **options):
    return engine.reduce_logits(
        batch["left"],
        batch["right"],
        compute_logits,
        params=params,
        ids=batch["ids"],
        positives=jnp.diag(compute_logits(batch["left"], batch["right"], params)),
        terms=TERMS,
        **options,
    )


def summarize(folded):
    """A scalar with a different weight for every result."""
    total = 0.0
    for number, (_, sides) in enumerate(sorted(folded.items())):
        for side, values in enumerate(sides):
            weights = np.cos(np.arange(len(values)) + 3 * number + side)
            total += jnp.sum(values * weights)
    return total


def value_and_gradients(batch, params, **options):
    def total(left, right, params):
        return summarize(reduce_logits(batch | {"left": left, "right": right}, params, **options))

    return jax.value_and_grad(total, argnums=(0, 1, 2))(batch["left"], batch["right"], params)


@functools.cache
def compute_dense():
    return jax.jit(value_and_gradients)(make_batch(24), {"scale": jnp.float32(1.5)})


@pytest.mark.parametrize(
    ("name", "devices", "fsdp"),
    [
        ("dense", 8, 1),
        *(("chunked", number, 1) for number in (1, 2, 8)),
        *(("ring", number, 1) for number in (1, 2, 4, 8)),
        *((name, 8, 4) for name in ("dense", "chunked", "ring")),
    ],
)
def test_engines_agree_on_any_mesh(name, devices, fsdp):
    host = make_batch(24)
    params = {"scale": jnp.float32(1.5)}
    expected = compute_dense()
    mesh = mesh_lib.make_mesh(jax.devices()[:devices], fsdp)
    batch = mesh_lib.global_batch(host, mesh)
    params = jax.device_put(params, mesh_lib.replicated(mesh))
    function = jax.jit(
        lambda *inputs: value_and_gradients(*inputs, engine=name, chunk_size=5, mesh=mesh)
    )
    found = function(batch, params)
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "devices", "chosen"),
    [
        ("auto:9", 1, "dense"),  # 8.4 MB of scores and gradient
        ("auto:8", 1, "chunked"),
        ("auto:2", 8, "dense"),
        ("auto:1", 8, "ring"),
        ("chunked", 8, "chunked"),
    ],
)
def test_a_budget_chooses_the_engine(name, devices, chosen):
    assert engine.plan(name, 64, 1024, devices) == (chosen, 64)


def test_a_budget_chooses_the_tiles():
    for devices, chosen in ((1, ("chunked", 10)), (8, ("ring", 6))):  # Pairs of 10 kB.
        assert engine.plan("auto:1", 1024, 128, devices, pair_bytes=1e4) == chosen
