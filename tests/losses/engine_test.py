"""Reductions against a slow loop in float64; all engines agree on any number of devices."""

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
    "semi_hard": terms.Term(
        lambda logits, p: jnp.where(logits >= p, terms.MASKED, logits), terms.MAXIMUM
    ),
}
REDUCERS = ("normalizer", "hardest", "hinges")  # One term for each.


def compute_logits(left, right, params):
    return params["scale"] * left @ right.T


def make_batch(size, ties=True, seed=0):
    """A batch whose partners are a permutation, with groups of equal ids."""
    rng = np.random.default_rng(seed)
    # Products of small integers are exact, so ties are ties in every engine.
    whole = rng.integers(-3, 4, size=(2, size, 3))
    left, right = (whole if ties else rng.normal(size=whole.shape)).astype(np.float32)
    partner = rng.permutation(size)
    left_ids = rng.integers(size // 2, size=size).astype(np.int32)
    right_ids = np.empty_like(left_ids)
    right_ids[partner] = left_ids
    return {
        "left": left,
        "right": right,
        "left_ids": left_ids,
        "right_ids": right_ids,
        "partner": partner.astype(np.int32),
        "back": np.argsort(partner).astype(np.int32),
    }


def reduce_logits(batch, params, names=tuple(TERMS), **options):
    logits = compute_logits(batch["left"], batch["right"], params)
    rows = jnp.arange(len(batch["left"]))
    return engine.reduce_logits(
        batch["left"],
        batch["right"],
        compute_logits,
        params=params,
        left_ids=batch["left_ids"],
        right_ids=batch["right_ids"],
        left_positive=logits[rows, batch["partner"]],
        right_positive=logits[batch["back"], rows],
        terms={name: TERMS[name] for name in names},
        **options,
    )


def slow_reduce(batch, scale):
    """Name -> (rows, columns), one item at a time in float64; MASKED if there is no value."""
    left, right = (batch[side].astype(np.float64) for side in ("left", "right"))
    scores = scale * left @ right.T
    found = {name: ([], []) for name in TERMS}
    for side, (matrix, partner, ids, others) in enumerate(
        [
            (scores, batch["partner"], batch["left_ids"], batch["right_ids"]),
            (scores.T, batch["back"], batch["right_ids"], batch["left_ids"]),
        ]
    ):
        for i, row in enumerate(matrix):
            positive = row[partner[i]]
            negatives = [s for j, s in enumerate(row) if others[j] != ids[i]]
            below = [s for s in negatives if s < positive]
            found["normalizer"][side].append(np.logaddexp.reduce(negatives))
            found["hardest"][side].append(max(negatives))
            found["hinges"][side].append(sum(max(0, MARGIN + s - positive) for s in negatives))
            found["semi_hard"][side].append(max(below, default=terms.MASKED))
    return found


def summarize(folded, numpy=jnp):
    """A scalar with a different weight for every result, leaving out masked results."""
    total = 0.0
    for number, (_, sides) in enumerate(sorted(folded.items())):
        for side, values in enumerate(map(numpy.asarray, sides)):
            values = numpy.where(values > terms.MASKED / 2, values, 0.0)
            weights = np.cos(np.arange(len(values)) + 3 * number + side)
            total += numpy.sum(values * weights)
    return total


@pytest.mark.parametrize("options", [{}, {"engine": "chunked", "chunk_size": 4}])
@pytest.mark.parametrize("size", [13, 29])
def test_equals_the_slow_loop(size, options):
    batch = make_batch(size)
    found = jax.jit(lambda batch: reduce_logits(batch, {"scale": 1.5}, **options))(batch)
    for name, sides in slow_reduce(batch, 1.5).items():
        for values, expected in zip(found[name], sides, strict=True):
            np.testing.assert_allclose(values, expected, rtol=2e-5, atol=2e-5, err_msg=name)


def value_and_gradients(batch, params, **options):
    def total(left, right, params):
        return summarize(reduce_logits(batch | {"left": left, "right": right}, params, **options))

    return jax.value_and_grad(total, argnums=(0, 1, 2))(batch["left"], batch["right"], params)


@functools.cache
def compute_dense():
    run = jax.jit(lambda *inputs: value_and_gradients(*inputs, names=REDUCERS))
    return run(make_batch(24), {"scale": jnp.float32(1.5)})


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("dense", 8),
        *(("chunked", number) for number in (1, 2, 8)),
        *(("ring", number) for number in (1, 2, 4, 8)),
    ],
)
def test_engines_agree_on_any_number_of_devices(name, devices):
    host = make_batch(24)
    params = {"scale": jnp.float32(1.5)}
    expected = compute_dense()
    mesh = mesh_lib.make_mesh(jax.devices()[:devices])
    batch = mesh_lib.global_batch(host, mesh)
    params = jax.device_put(params, mesh_lib.replicated(mesh))
    function = jax.jit(
        lambda *inputs: value_and_gradients(
            *inputs, names=REDUCERS, engine=name, chunk_size=5, mesh=mesh
        )
    )
    found = function(batch, params)
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "columns", "devices", "chosen"),
    [
        ("auto:9", 1024, 1, "dense"),  # 8.4 MB of scores and gradient
        ("auto:8", 1024, 1, "chunked"),
        ("auto:2", 1024, 8, "dense"),
        ("auto:1", 1024, 8, "ring"),
        ("chunked", 1024, 8, "chunked"),
    ],
)
def test_a_budget_chooses_the_engine(name, columns, devices, chosen):
    assert engine.plan(name, 64, 1024, columns, devices=devices) == (chosen, 64)


def test_a_budget_chooses_the_tiles():
    for devices, chosen in ((1, ("chunked", 10)), (8, ("ring", 6))):  # Pairs of 10 kB.
        assert engine.plan("auto:1", 1024, 128, 128, devices=devices, pair_bytes=1e4) == chosen
