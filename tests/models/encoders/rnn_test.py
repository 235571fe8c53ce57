"""Recurrent encoders against torch's, with torch's weights."""

import jax
import numpy as np
import pytest

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


@pytest.mark.parametrize("source", ["tokens", "state"])
def test_the_end_of_a_text(source, tower, random_variables):
    options = {"vocab_size": 11, "width": 5, "embedding_width": 3, "bidirectional": True}
    made = tower("rnn", head={"name": "lasttoken", "source": source}, **options)
    params, _ = random_variables(made, INPUTS, scale=0.5)
    apply = jax.jit(made.apply)
    vector = apply(params, {}, INPUTS)[0].vector
    for row, length in enumerate(LENGTHS[1:3], start=1):
        alone = {name: column[row : row + 1, :length] for name, column in INPUTS.items()}
        expected = apply(params, {}, alone)[0].vector[0]
        np.testing.assert_allclose(vector[row], expected, rtol=1e-5, atol=1e-6)
    # A single token is the last of both directions.
    other = {"tokens": "state", "state": "tokens"}[source]
    made = tower("rnn", head={"name": "lasttoken", "source": other}, **options)
    different = np.abs(jax.jit(made.apply)(params, {}, INPUTS)[0].vector - vector).max(axis=1)
    np.testing.assert_array_equal(different > 1e-4, np.array(LENGTHS) > 1)
