"""Recurrent layers against Flax's cells, run and differentiated directly, and torch's start."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.recurrent import Recurrent

CELLS = {"gru": nn.GRUCell, "lstm": nn.OptimizedLSTMCell}
GATES = {"gru": "rzn", "lstm": "ifgo"}
LENGTHS = np.array([7, 1, 3, 5, 2])
TEXTS = np.random.default_rng(0).standard_normal((5, 7, 9), np.float32)
REAL = (np.arange(7) < LENGTHS[:, None])[..., None]


class Reference(nn.Module):
    """Like `Recurrent`, with `nn.RNN`."""

    cell: str
    width: int
    layers: int
    bidirectional: bool
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x, lengths, drops):
        directions = ("forward", "backward")[: 1 + self.bidirectional]
        for layer in range(1, self.layers + 1):
            found = []
            for name in directions:
                cell = CELLS[self.cell](self.width, dtype=self.dtype, name=f"layer{layer}_{name}")
                back = name == "backward"
                run = nn.RNN(cell, return_carry=True, reverse=back, keep_order=back)
                carry, outputs = run(x, seq_lengths=lengths)
                found.append((outputs, carry[1] if self.cell == "lstm" else carry))
            x, state = (jnp.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
        return x, state, x[np.arange(len(LENGTHS)), LENGTHS - 1]


def flax_names(cell, params):
    """The parameters of a layer under Flax's names, which have the sum of two biases."""
    found = {name: {"kernel": dense["kernel"]} for name, dense in params.items()}
    for gate in GATES[cell]:
        biases = {s: params[s + gate]["bias"] for s in "ih" if "bias" in params[s + gate]}
        if cell == "lstm":
            found[f"h{gate}"]["bias"] = sum(biases.values())
        elif gate == "n":
            found["in"]["bias"], found["hn"]["bias"] = biases["i"], biases["h"]
        else:
            found[f"i{gate}"]["bias"] = sum(biases.values())
    return found


def gradients_and_values(run, params, x, weights):
    def loss(params, x):
        outputs, state, last = run(params, x)
        outputs = jnp.where(REAL, outputs, 0)
        total = jnp.sum(outputs * weights) + jnp.sum(state**2) + jnp.sum(jnp.sin(3 * last))
        return total, (outputs, state, last)

    return jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))(params, x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "biases", "layers", "bidirectional", "dtype", "tolerance"),
    [
        *((cell, biases, 2, True, jnp.float32, 1e-5) for cell in CELLS for biases in (1, 2)),
        *((cell, biases, 1, False, jnp.bfloat16, 5e-2) for cell in CELLS for biases in (1, 2)),
        ("gru", 2, 1, False, jnp.float32, 1e-5),
        ("lstm", 1, 2, True, jnp.bfloat16, 5e-2),
    ],
)
def test_equals_the_cells_of_flax(cell, biases, layers, bidirectional, dtype, tolerance):
    module = Recurrent(cell, 6, layers, bidirectional, 0.0, dtype, biases)
    reference = Reference(cell, 6, layers, bidirectional, dtype)

    def ours(params, x):
        return module.apply({"params": params}, x, LENGTHS, False)

    def theirs(params, x):
        named = {name: flax_names(cell, layer) for name, layer in params.items()}
        return reference.apply({"params": named}, x, LENGTHS, False)

    # Not compiled as a whole, which would compile one QR decomposition per matrix.
    fresh = module.init(jax.random.key(1), TEXTS, LENGTHS, False)["params"]
    rng = np.random.default_rng(2)
    params = jax.tree.map(lambda leaf: leaf + 0.1 * rng.standard_normal(leaf.shape), fresh)
    params = jax.tree.map(np.float32, params)
    weights = rng.standard_normal((5, 7, 6 * (1 + bidirectional))).astype(np.float32)
    found, wanted = (gradients_and_values(run, params, TEXTS, weights) for run in (ours, theirs))

    def check(got, wanted):
        assert got.dtype == wanted.dtype
        scale = max(np.abs(wanted).max(), 1e-3)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * scale)

    jax.tree.map(check, found, wanted)


@pytest.mark.parametrize("cell", GATES)
def test_matrices_start_as_in_flax_and_two_biases_as_in_torch(cell):
    width, made = 64, {}
    for biases in (1, 2):
        module = Recurrent(cell, width, 1, False, 0.0, jnp.float32, biases)
        made[biases] = module.init(jax.random.key(1), TEXTS, LENGTHS, False)["params"]
    reference = Reference(cell, width, 1, False, jnp.float32)
    made["flax"] = reference.init(jax.random.key(1), TEXTS, LENGTHS, False)["params"]
    one, two, plain = (made[name]["layer1_forward"] for name in (1, 2, "flax"))
    for name, dense in two.items():
        for other in (one, plain):
            np.testing.assert_array_equal(dense["kernel"], other[name]["kernel"])
        assert not np.any(one[name].get("bias", 0))
    # U(-1 / sqrt(width), 1 / sqrt(width)), drawn twice: the sum is not the double of one.
    pair = [np.concatenate([two[source + gate]["bias"] for gate in GATES[cell]]) for source in "ih"]
    for biases, spread in ((pair[0], 1 / 3), (pair[1], 1 / 3), (sum(pair), 2 / 3)):
        assert np.var(biases) * width == pytest.approx(spread, rel=0.2)
        assert np.abs(biases).max() <= spread * 3 / np.sqrt(width)


def test_the_output_at_the_last_token_needs_one_step_of_the_backward_direction():
    def count_loops(module, read):
        params = jax.eval_shape(module.init, jax.random.key(0), TEXTS, LENGTHS, False)

        def loss(params):
            return jnp.sum(read(module.apply(params, TEXTS, LENGTHS, False)) ** 2)

        return jax.jit(jax.grad(loss)).lower(params).compile().as_text().count(" while(")

    one, both = (Recurrent("gru", 6, 1, each, 0.0, jnp.float32) for each in (False, True))
    forward = count_loops(one, lambda outputs: outputs.last)
    assert forward > 0
    assert count_loops(both, lambda outputs: outputs.last) == forward
    assert count_loops(both, lambda outputs: outputs.state) == 2 * forward


def test_layers_are_exported_for_any_number_of_texts():
    layers = Recurrent("gru", 6, 1, True, 0.0, jnp.float32)
    params = jax.jit(layers.init, static_argnums=3)(jax.random.key(0), TEXTS, LENGTHS, False)
    (number,) = jax.export.symbolic_shape("n")
    shapes = (
        jax.ShapeDtypeStruct((number, *each.shape[1:]), each.dtype) for each in (TEXTS, LENGTHS)
    )
    run = jax.jit(lambda texts, lengths: layers.apply(params, texts, lengths, False))
    found = jax.export.export(run)(*shapes).call(TEXTS[:3], LENGTHS[:3])
    for ours, expected in zip(found, run(TEXTS[:3], LENGTHS[:3]), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
