"""The Vision Transformer against loops over patches and layers."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.transformer_layers import StackConfig

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (3, 6, 9, 3), np.uint8)
SIZES = {
    "patch": 3, "width": 12, "depth": 3, "heads": 2, "mlp_dim": 20, "normalization": "unit",
}  # fmt: skip


@pytest.mark.slow
def test_remat_and_unroll_change_memory_but_no_gradient(tower, random_variables):
    plain = tower("vit", dropout=0.3, **SIZES)
    params, state = random_variables(plain, {"image": IMAGES}, scale=0.3)

    def gradient(**options):
        made = tower("vit", dropout=0.3, **options, **SIZES)

        def loss(params, images):
            key, inputs = jax.random.key(3), {"image": images}
            embedding, _ = made.apply(params, state, inputs, train=True, key=key)
            return jnp.sum(jnp.sin(embedding.vector))

        # Layers dwarf the images and parameters.
        many = np.tile(IMAGES, (50, 1, 1, 1))
        compiled = jax.jit(jax.grad(loss)).lower(params, many).compile()
        memory.append(compiled.memory_analysis().temp_size_in_bytes)
        return compiled(params, many)

    memory: list[int] = []
    expected = gradient()
    for options in (
        {"remat": True, "remat_policy": "dots_saveable"},
        {"remat": True, "remat_policy": "dots_with_no_batch_dims_saveable"},
        {"remat": True},
    ):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
            gradient(**options),
            expected,
        )
    assert memory == sorted(memory, reverse=True)
    assert memory[3] < 0.9 * memory[2] < 0.8 * memory[1] < 0.7 * memory[0], memory
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        gradient(remat=True, unroll=True),
        expected,
    )


class Stack(nn.Module):
    """Four layers whose last one drops half of its branches."""

    remat: bool = False

    @nn.compact
    def __call__(self, x):
        config = StackConfig(8, 4, heads=2, mlp_dim=4, remat=self.remat)
        options = {"norm_first": True, "activation": "gelu", "epsilon": 1e-6, "causal": False}
        return config.run_layers(x, None, 0.0, drop_path=0.5, **options)


@pytest.mark.parametrize("remat", [False, True])
def test_branches_are_dropped_by_a_rate_that_rises_with_the_layer(remat):
    """Branch k of eight adds 1 to coordinate k, so the output says which ones were kept."""
    stack, x = Stack(remat), jnp.zeros((6000, 3, 8))
    rngs = {name: jax.random.key(seed) for seed, name in enumerate(("params", "dropout"))}
    params = jax.tree.map(jnp.zeros_like, stack.init(rngs, x[:1]))
    for branch, name in enumerate(("attention_output", "mlp_output")):
        params["params"]["layers"][name]["bias"] = jnp.eye(8)[branch::2]
    found = np.asarray(jax.jit(stack.apply)(params, x, rngs=rngs))
    assert (found == found[:, :1]).all()  # All tokens of an item together.
    found, rates = found[:, 0], np.repeat([0, 1 / 6, 1 / 3, 1 / 2], 2)
    kept = found > 0
    np.testing.assert_allclose(found, kept / (1 - rates), rtol=1e-6)
    np.testing.assert_allclose(1 - kept.mean(axis=0), rates, atol=0.025)  # Four deviations.
    np.testing.assert_allclose(found.mean(axis=0), 1, atol=0.05)
    assert np.abs(np.corrcoef(kept[:, 2:].T) - np.eye(6)).max() < 0.06
