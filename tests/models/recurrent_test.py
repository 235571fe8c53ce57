"""Recurrent layers against Flax's cells, run and differentiated directly."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.base import mesh as mesh_lib
from xmodal.models.recurrent import Direction, Recurrent

CELLS = {"gru": nn.GRUCell, "lstm": nn.OptimizedLSTMCell}
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
        return x, state


def value_and_gradients(module, params, x, weights):
    def loss(params, x):
        outputs, state = module.apply(params, x, LENGTHS, False)
        outputs = jnp.where(REAL, outputs, 0)
        return jnp.sum(outputs * weights) + jnp.sum(state**2), (outputs, state)

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(params, x)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(jnp.float32, 1e-5), (jnp.bfloat16, 5e-2)], ids=["f32", "bf16"]
)
def test_equals_the_cells_of_flax(cell, layers, bidirectional, dtype, tolerance):
    modules = (
        Recurrent(cell, 6, layers, bidirectional, 0.0, dtype),
        Reference(cell, 6, layers, bidirectional, dtype),
    )
    fresh, wanted = (module.init(jax.random.key(1), TEXTS, LENGTHS, False) for module in modules)
    jax.tree.map(np.testing.assert_array_equal, fresh, wanted)
    rng = np.random.default_rng(2)
    params = jax.tree.map(lambda leaf: leaf + 0.1 * rng.standard_normal(leaf.shape), fresh)
    params = jax.tree.map(np.float32, params)
    weights = rng.standard_normal((5, 7, 6 * (1 + bidirectional))).astype(np.float32)
    ours, theirs = (value_and_gradients(module, params, TEXTS, weights) for module in modules)

    def check(got, wanted):
        assert got.dtype == wanted.dtype
        scale = max(np.abs(wanted).max(), 1e-3)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * scale)

    jax.tree.map(check, ours, theirs)


def test_begins_at_a_given_state():
    layer, rng = Direction("gru", 6), np.random.default_rng(3)
    params = layer.init(jax.random.key(0), TEXTS, LENGTHS)
    start, target = rng.standard_normal((2, 5, 6)).astype(np.float32)

    def ours(start):
        return jnp.sum(layer.apply(params, TEXTS, LENGTHS, start)[1] * target)

    def theirs(start):
        run = nn.RNN(nn.GRUCell(6, parent=None), return_carry=True)
        cell = {"params": {"cell": params["params"]}}
        state = run.apply(cell, TEXTS, initial_carry=start, seq_lengths=LENGTHS)[0]
        return jnp.sum(state * target)

    got, wanted = (jax.jit(jax.value_and_grad(run))(start) for run in (ours, theirs))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), got, wanted)


def test_devices_add_their_gradients_once_not_at_every_step():
    mesh = mesh_lib.make_mesh()
    rows, whole = mesh_lib.batch_sharded(mesh), mesh_lib.replicated(mesh)
    layer = Direction("lstm", 16)
    texts, lengths = np.ones((16, 7, 9), np.float32), np.full(16, 7)
    params = layer.init(jax.random.key(0), texts, lengths)

    def loss(params, texts, lengths):
        return jnp.sum(layer.apply(params, texts, lengths)[1] ** 2)

    compiled = (
        jax.jit(jax.grad(loss), in_shardings=(whole, rows, rows), out_shardings=whole)
        .lower(params, texts, lengths)
        .compile()
    )
    entry, loops = compiled.as_text().rsplit("\nENTRY", 1)[::-1]
    assert "all-reduce" in entry
    assert "while(" in entry
    assert "all-reduce(" not in loops
