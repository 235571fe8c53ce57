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
        *((cell, 2, 1, False, jnp.bfloat16, 5e-2) for cell in CELLS),
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
