"""The text transformers of CLIP and SigLIP against a loop over tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 20, (3, 6))
LENGTHS = (6, 1, 4)
MASK = (np.arange(6) < np.array(LENGTHS)[:, None]).astype(np.int32)
SIZES = {
    "vocab_size": 20, "width": 12, "depth": 2, "heads": 3, "mlp_dim": 20, "max_positions": 8,
    "activation": "gelu",
}  # fmt: skip


@pytest.mark.slow
def test_initial_values_are_those_of_each_code(tower):
    sizes = {**SIZES, "vocab_size": 500, "width": 48, "mlp_dim": 96, "max_positions": 77}
    for init, expected in {
        "clip": (0.02, 0.01, 48**-0.5, (2 * 2 * 48) ** -0.5, (2 * 48) ** -0.5, (3 * 48) ** -0.5),
        "siglip": (48**-0.5, 48**-0.5, 48**-0.5, 48**-0.5, (1 / 72) ** 0.5, 1e-6),
    }.items():
        params, _ = jax.jit(tower("text_transformer", init=init, **sizes).init)(
            jax.random.key(0), {"text_ids": IDS, "text_mask": MASK}
        )
        encoder = params["encoder"]
        layers = encoder["layers"]
        found = [
            encoder["word_embeddings"], encoder["position_embeddings"], layers["key"]["kernel"],
            layers["attention_output"]["kernel"], layers["mlp_hidden"]["kernel"],
            layers["mlp_hidden"]["bias"],
        ]  # fmt: skip
        np.testing.assert_allclose([jnp.std(array) for array in found], expected, rtol=0.1)
        assert not jnp.any(layers["query"]["bias"])
