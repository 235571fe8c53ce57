"""The probabilistic head against torch's layers, and the repeatability of its samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

RNG = np.random.default_rng(0)
TEXT = {
    "text_ids": RNG.integers(0, 11, (4, 6), np.int32),
    "text_mask": np.int32(np.arange(6) < np.array([[6], [1], [4], [3]])),
}
REGIONS = {
    "image": RNG.normal(size=(4, 6, 5)).astype(np.float32),
    "image_mask": np.arange(6) < np.array([[6], [1], [4], [3]]),
}
HEAD = {"name": "gaussian", "width": 8, "samples": 3}
RNN = {"vocab_size": 11, "width": 4, "embedding_width": 6, "bidirectional": True}


def _pad(inputs):
    return {
        name: np.pad(column, [(0, 0), (0, 5), *[(0, 0)] * (column.ndim - 2)])
        for name, column in inputs.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["rnn", "precomputed"])
def test_samples_repeat_for_every_batch_and_padding(encoder, tower, random_variables):
    options, inputs = {"rnn": (RNN, TEXT), "precomputed": ({"features": 5}, REGIONS)}[encoder]
    made = tower(encoder, head=HEAD, **options)
    params, _ = random_variables(made, inputs, scale=0.5)
    apply = jax.jit(lambda inputs: made.apply(params, {}, inputs)[0])
    whole = apply(inputs)
    assert whole.vector.shape == (4, 3, 8)
    order = [2, 0]
    some = {name: column[order] for name, column in _pad(inputs).items()}
    expected = whole.vector[jnp.array(order)]
    np.testing.assert_allclose(apply(some).vector, expected, rtol=1e-4, atol=1e-5)
    noise = (whole.vector - whole.extras["mean"][:, None]) / np.exp(whole.log_sigma)[:, None]
    assert 0.5 < noise.std() < 1.5
    # Every item and every sample has separate noise.
    flat = np.asarray(noise).reshape(12, 8)
    assert np.abs(flat[:, None] - flat[None]).max(-1)[~np.eye(12, dtype=bool)].min() > 0.05


@pytest.mark.slow
def test_training_draws_anew_and_a_frozen_head_does_not(tower, random_variables):
    made = tower("rnn", head=HEAD, **RNN)
    params, _ = random_variables(made, TEXT)
    run = jax.jit(
        lambda seed, frozen: (
            made.apply(params, {}, TEXT, train=True, frozen=frozen, key=jax.random.key(seed))[
                0
            ].vector
        ),
        static_argnums=1,
    )
    np.testing.assert_array_equal(run(0, ()), run(0, ()))
    assert np.abs(run(0, ()) - run(1, ())).max() > 0.1
    frozen = run(0, ("encoder", "head"))
    evaluated = jax.jit(made.apply)(params, {}, TEXT)[0].vector
    np.testing.assert_allclose(frozen, evaluated, rtol=1e-5, atol=1e-5)
