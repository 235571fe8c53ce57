"""The probabilistic head against torch's layers, and the repeatability of its samples."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.base.config import UserError
from xmodal.models import Features, Mode
from xmodal.models.content import hash_items
from xmodal.models.heads import gaussian, make_head

RNG = np.random.default_rng(0)
TEXT = {
    "text_ids": RNG.integers(0, 11, (4, 6), np.int32),
    "text_mask": np.int32(np.arange(6) < np.array([[6], [1], [4], [3]])),
}
IMAGE = {"image": RNG.integers(0, 256, (4, 40, 33, 3), np.uint8)}
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


def test_the_seed_changes_the_noise():
    content = hash_items(TEXT)
    one, same, other = (gaussian.draw_noise(content, seed, (3, 8)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max(axis=(1, 2)).min() > 0.1


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


@pytest.mark.parametrize("inputs", [TEXT, IMAGE, REGIONS], ids=["text", "image", "regions"])
def test_hashes_tell_items_apart(inputs):
    hashes = np.asarray(hash_items(inputs))
    assert (hashes.shape, hashes.dtype) == ((4, 2), np.uint32)
    assert len(np.unique(hashes, axis=0)) == 4
    column = next(iter(inputs))
    changed = inputs[column].copy()
    changed[0, 0] = changed[0, 0] + 1
    different = np.asarray(hash_items(inputs | {column: changed})) != hashes
    np.testing.assert_array_equal(different, [[True, True], *[[False, False]] * 3])
    swapped = inputs[column].copy()
    swapped[0, [0, 1]] = swapped[0, [1, 0]]
    assert np.all(np.asarray(hash_items(inputs | {column: swapped}))[0] != hashes[0])


def test_hashes_ignore_padding_and_dtype():
    for inputs in (TEXT, REGIONS):
        np.testing.assert_array_equal(hash_items(_pad(inputs)), hash_items(inputs))
    half = {"image": REGIONS["image"].astype(np.float16)}
    single = {"image": half["image"].astype(np.float32)}
    np.testing.assert_array_equal(hash_items(half), hash_items(single))
    # An id of 0 is not padding if the mask says so.
    ids, mask = np.zeros((2, 3), np.int32), np.int32([[1, 1, 0], [1, 0, 0]])
    hashes = np.asarray(hash_items({"text_ids": ids, "text_mask": mask}))
    assert np.all(hashes[0] != hashes[1])


@pytest.mark.parametrize("is_text", [True, False])
def test_equals_torch(is_text):
    """One row at a time in torch: PCME's image branch, and its text branch without the GRU."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    tokens = RNG.normal(size=(3, 5, 8)).astype(np.float32)
    words = RNG.normal(size=(3, 5, 6)).astype(np.float32)
    state = RNG.normal(size=(3, 8)).astype(np.float32)
    lengths = (5, 1, 3) if is_text else (5, 5, 5)
    mask = np.arange(5) < np.array(lengths)[:, None]
    extras = {"words": words, "state": state} if is_text else {}
    features = Features(
        tokens, mask if is_text else None, extras | {"content": np.ones((3, 2), np.uint32)}
    )
    head = make_head("head", HEAD | {"linear": not is_text})
    init = partial(head.init, features=features, mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    variables = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape, scale=0.5), shapes)
    params = jax.tree.map(lambda leaf: leaf.astype(np.float32), variables)
    embedding = jax.jit(lambda features: head.apply(params, features, Mode.EVALUATE))(features)

    def linear(layer, x):
        bias = torch.tensor(layer["bias"]) if "bias" in layer else None
        return functional.linear(x, torch.tensor(layer["kernel"].T), bias)

    for row, length in enumerate(lengths):
        read = torch.tensor((words if is_text else tokens)[row, :length])
        parts = {}
        for name in ("mean", "log_sigma"):
            branch = params["params"][name]
            hidden = torch.tanh(linear(branch["attention_hidden"], read))
            weights = torch.softmax(linear(branch["attention_scores"], hidden)[:, 0], dim=0)
            residual = linear(branch["attended"], weights @ read)
            summary = torch.tensor(state[row] if is_text else tokens[row].mean(0))
            summary = summary if is_text else linear(branch["summary"], summary)
            if name == "mean":
                norm = branch["norm"]
                scale, bias = torch.tensor(norm["scale"]), torch.tensor(norm["bias"])
                out = functional.layer_norm(
                    summary + torch.sigmoid(residual), (8,), scale, bias, eps=1e-5
                )
                parts[name] = functional.normalize(out, dim=0)
                attention = weights
            else:
                parts[name] = summary + residual
        np.testing.assert_allclose(
            embedding.extras["mean"][row], parts["mean"], rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(
            embedding.log_sigma[row], parts["log_sigma"], rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(
            embedding.extras["attention"][row, :length], attention, rtol=1e-4, atol=1e-5
        )


def test_a_gru_of_its_own_for_log_sigma(tower):
    made = tower("rnn", head=HEAD | {"source": "last", "linear": False, "recurrent": True}, **RNN)
    params, _ = jax.eval_shape(made.init, jax.random.key(0), TEXT)
    assert "recurrent" not in params["head"]["mean"]
    cells = params["head"]["log_sigma"]["recurrent"]
    assert set(cells) == {"layer1_forward", "layer1_backward"}
    assert cells["layer1_forward"]["ir"]["kernel"].shape == (6, 4)
    assert "summary" not in params["head"]["log_sigma"]


def test_errors_name_the_remedy(tower):
    def init(made):
        jax.eval_shape(made.init, jax.random.key(0), TEXT)

    with pytest.raises(UserError, match="linear=False and width=9 gets features of width 8"):
        init(tower("rnn", head=HEAD | {"linear": False, "width": 9}, **RNN))
    with pytest.raises(UserError, match="width of 9 over two directions; set an even width"):
        init(tower("rnn", head=HEAD | {"recurrent": True, "width": 9}, **RNN))
    with pytest.raises(UserError, match="source='state' needs an encoder with a state"):
        init(tower("words", head=HEAD | {"source": "state"}, vocab_size=11))
    with pytest.raises(UserError, match="samples is 0; it must be at least 1"):
        tower("rnn", head=HEAD | {"samples": 0}, **RNN)
