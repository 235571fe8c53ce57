"""Recurrent encoders against torch's, with torch's weights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import clipped_adam
from xmodal.base.config import UserError
from xmodal.models import Mode

LENGTHS = (7, 1, 4, 3)
IDS = np.random.default_rng(0).integers(0, 11, (4, 7), np.int32)
INPUTS = {"text_ids": IDS, "text_mask": np.int32(np.arange(7) < np.array(LENGTHS)[:, None])}
GATES = {"gru": "rzn", "lstm": "ifgo"}


def _cell(cell, torch_rnn, suffix, width):
    """One direction of one layer, with our names."""
    state = {name: tensor.detach().numpy() for name, tensor in torch_rnn.named_parameters()}
    arrays = {}
    for index, gate in enumerate(GATES[cell]):
        rows = slice(index * width, (index + 1) * width)
        for source in "ih":
            arrays[f"{source}{gate}"] = {
                "kernel": state[f"weight_{source}h_{suffix}"][rows].T,
                "bias": state[f"bias_{source}h_{suffix}"][rows],
            }
    return arrays


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (1, True), (2, True)])
def test_equals_torch(cell, layers, bidirectional, tower):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    width, table = 5, np.random.default_rng(1).normal(size=(11, 3)).astype(np.float32)
    kind = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell]
    theirs = kind(3, width, layers, batch_first=True, bidirectional=bidirectional)
    words = torch.nn.utils.rnn.pack_padded_sequence(
        torch.tensor(table[IDS]), torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False
    )
    with torch.no_grad():
        outputs, state = theirs(words)
    outputs, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    state = (state[0] if cell == "lstm" else state)[-(1 + bidirectional) :]

    directions = {"forward": "", "backward": "_reverse"} if bidirectional else {"forward": ""}
    recurrent = {
        f"layer{layer + 1}_{name}": _cell(cell, theirs, f"l{layer}{end}", width)
        for layer in range(layers)
        for name, end in directions.items()
    }
    made = tower(
        "rnn", vocab_size=11, cell=cell, width=width, layers=layers, bidirectional=bidirectional,
        embedding_width=3,
    )  # fmt: skip
    params = {"encoder": {"table": table, "recurrent": recurrent}}
    fresh, _ = jax.eval_shape(made.init, jax.random.key(0), INPUTS)
    assert jax.tree.map(np.shape, params) == jax.tree.map(lambda leaf: leaf.shape, fresh)
    encoder = made.module.encoder
    run = jax.jit(lambda params: encoder.apply({"params": params}, INPUTS, Mode.EVALUATE))
    features = run(params["encoder"])
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(
            features.tokens[row, :length], outputs[row, :length], rtol=1e-5, atol=1e-6
        )
    joined = np.concatenate(list(state), axis=-1)
    np.testing.assert_allclose(features.extras["state"], joined, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(features.extras["words"], table[IDS])


@pytest.mark.parametrize("cell", GATES)
def test_three_steps_of_clipped_adam_equal_torch(cell, tower):
    """Adam moves both biases of a gate, and the norm of the gradients counts both."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    rng, width = np.random.default_rng(1), 5
    table = rng.normal(size=(11, 3)).astype(np.float32)
    target = rng.normal(size=(4, 7, width)).astype(np.float32) * INPUTS["text_mask"][..., None]
    theirs = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell](3, width, batch_first=True)
    encoder = tower("rnn", vocab_size=11, cell=cell, width=width, embedding_width=3).module.encoder

    def read_params():
        layer = _cell(cell, theirs, "l0", width)
        return jax.tree.map(np.copy, {"recurrent": {"layer1_forward": layer}})

    @jax.jit
    @jax.grad
    def gradients(params):
        variables = {"params": params | {"table": table}}
        return jnp.sum(encoder.apply(variables, INPUTS, Mode.EVALUATE).tokens * target)

    start = read_params()
    ours, norms = clipped_adam.train(start, gradients)

    def compute_loss():
        return (theirs(torch.tensor(table[IDS]))[0] * torch.tensor(target)).sum()

    parameters = list(theirs.parameters())
    assert norms == pytest.approx(
        clipped_adam.train_torch(torch, parameters, compute_loss), rel=1e-4
    )
    assert min(norms) > clipped_adam.CLIP
    clipped_adam.check_movement(start, ours, read_params())


@pytest.mark.parametrize("source", ["tokens", "state"])
def test_the_end_of_a_text(source, tower, random_variables):
    options = {"vocab_size": 11, "width": 5, "embedding_width": 3, "bidirectional": True}
    made = tower("rnn", head={"name": "last", "source": source}, **options)
    params, _ = random_variables(made, INPUTS, scale=0.5)
    apply = jax.jit(made.apply)
    vector = apply(params, {}, INPUTS)[0].vector
    for row, length in enumerate(LENGTHS[1:3], start=1):
        alone = {name: column[row : row + 1, :length] for name, column in INPUTS.items()}
        expected = apply(params, {}, alone)[0].vector[0]
        np.testing.assert_allclose(vector[row], expected, rtol=1e-5, atol=1e-6)
    # A single token is the last of both directions.
    other = {"tokens": "state", "state": "tokens"}[source]
    made = tower("rnn", head={"name": "last", "source": other}, **options)
    different = np.abs(jax.jit(made.apply)(params, {}, INPUTS)[0].vector - vector).max(axis=1)
    np.testing.assert_array_equal(different > 1e-4, np.array(LENGTHS) > 1)


def test_the_mean_of_both_directions(tower, random_variables):
    options = {"vocab_size": 11, "width": 5, "embedding_width": 3, "bidirectional": True}
    joined, mean = (tower("rnn", directions=name, **options) for name in ("joined", "mean"))
    params, _ = random_variables(joined, INPUTS, scale=0.5)

    @jax.jit
    def compute(params):
        parts = {"params": params["encoder"]}
        return [made.module.encoder.apply(parts, INPUTS, Mode.EVALUATE) for made in (mean, joined)]

    found = compute(params)
    for name in ("tokens", "state"):
        both, halves = (each.tokens if name == "tokens" else each.extras["state"] for each in found)
        expected = (halves[..., :5] + halves[..., 5:]) / 2
        np.testing.assert_allclose(both, expected, rtol=1e-6)
    with pytest.raises(UserError, match="directions is 'mean', but bidirectional is False"):
        tower("rnn", directions="mean", **options | {"bidirectional": False})


def test_words_drop_in_training_only(tower, random_variables):
    made = tower("rnn", vocab_size=11, width=5, layers=2, embedding_width=3, dropout=0.5)
    params, _ = random_variables(made, INPUTS, scale=0.5)
    expected = jax.jit(made.apply)(params, {}, INPUTS)[0].vector
    train = jax.jit(partial(made.apply, train=True), static_argnames="frozen")
    key = jax.random.key(0)
    dropped = train(params, {}, INPUTS, key=key)[0].vector
    assert np.abs(dropped - expected).max() > 1e-2
    frozen = train(params, {}, INPUTS, frozen=("encoder",), key=key)[0].vector
    np.testing.assert_allclose(frozen, expected, rtol=1e-6)


def test_errors_name_the_remedy(tower):
    with pytest.raises(UserError, match="known: .'gru', 'lstm'"):
        tower("rnn", vocab_size=11, cell="rnn")
    made = tower("rnn", vocab_size=11, width=5)
    with pytest.raises(UserError, match="The encoder Rnn has no frozen features"):
        made.frozen_features({}, {}, INPUTS)
    made = tower("words", head={"name": "last", "source": "state"}, vocab_size=11)
    with pytest.raises(UserError, match="needs an encoder with a state, such as 'rnn'"):
        jax.eval_shape(made.init, jax.random.key(0), INPUTS)
