"""The text transformers of CLIP and SigLIP against a loop over tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.base.config import UserError
from xmodal.models import make_dual_encoder

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 20, (3, 6))
LENGTHS = (6, 1, 4)
MASK = (np.arange(6) < np.array(LENGTHS)[:, None]).astype(np.int32)
TEXTS = {"text_ids": IDS, "text_mask": MASK}
SIZES = {
    "vocab_size": 20, "width": 12, "depth": 2, "heads": 3, "mlp_dim": 20, "max_positions": 8,
    "activation": "gelu",
}  # fmt: skip


def encode(ids, params, causal, length):
    """The tokens [T, W] of one text, of which the first `length` may be read."""
    x = np.asarray(params["word_embeddings"], np.float64)[ids]
    x = x + np.asarray(params["position_embeddings"])[: len(ids)]
    for layer in range(2):
        one = jax.tree.map(lambda leaf, layer=layer: leaf[layer], params["layers"])
        normed = reference.layer_norm(x, 1e-5, **one["attention_norm"])
        query, key, value = (
            reference.dense(one[name], normed) for name in ("query", "key", "value")
        )
        attended = np.concatenate([
            reference.attention(query[t : t + 1], key, value, t + 1 if causal else length, 3)
            for t in range(len(ids))
        ])  # fmt: skip
        x = x + reference.dense(one["attention_output"], attended)
        normed = reference.layer_norm(x, 1e-5, **one["mlp_norm"])
        x = x + reference.mlp(one, normed, reference.gelu)
    return reference.layer_norm(x, 1e-5, **params["norm"])


@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_loop_and_reads_no_padding(causal, tower, random_variables):
    made = tower("text_transformer", head={"name": "last"}, causal=causal, **SIZES)
    params, state = random_variables(made, TEXTS, scale=0.4)
    apply = jax.jit(lambda texts: made.apply(params, state, texts)[0].vector)
    vectors = apply(TEXTS)
    for vector, ids, length in zip(vectors, IDS, LENGTHS, strict=True):
        tokens = encode(ids, params["encoder"], causal, length)
        np.testing.assert_allclose(vector, tokens[length - 1], rtol=1e-4, atol=1e-5)
    others = {**TEXTS, "text_ids": np.where(MASK, IDS, 7)}
    np.testing.assert_allclose(apply(others), vectors, atol=1e-6)
    # SigLIP's texts are padded with a token that is read: the mask covers it.
    read = {**TEXTS, "text_mask": np.ones_like(MASK)}
    for vector, ids in zip(apply(read), IDS, strict=True):
        tokens = encode(ids, params["encoder"], causal, 6)
        np.testing.assert_allclose(vector, tokens[-1], rtol=1e-4, atol=1e-5)


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


def test_the_published_number_of_parameters():
    """That of openai/CLIP's ViT-B/32."""
    image = {
        "name": "vit", "patch": 32, "patch_bias": False, "norm_before": True,
        "activation": "quick_gelu", "epsilon": 1e-5,
    }  # fmt: skip
    model = make_dual_encoder({
        "image": {"encoder": image, "head": {"name": "first"},
                  "projection": {"width": 512, "bias": False}},
        "text": {"encoder": {"name": "text_transformer"}, "head": {"name": "last"},
                 "projection": {"width": 512, "bias": False}},
        "similarity": {"name": "cosine", "learned_temperature": True},
    })  # fmt: skip
    texts = {name: np.zeros((1, 77), np.int32) for name in ("text_ids", "text_mask")}
    inputs = {"image": {"image": np.zeros((1, 224, 224, 3), np.uint8)}, "text": texts}
    params, _ = jax.eval_shape(model.init, jax.random.key(0), inputs)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 151_277_313


def test_a_text_that_is_too_long_is_an_error(tower, random_variables):
    made = tower("text_transformer", **SIZES)
    params, state = random_variables(made, TEXTS)
    longer = {name: np.ones((1, 9), np.int32) for name in TEXTS}
    with pytest.raises(UserError, match=r"9 tokens, but .* max_positions=8: lower .*max_length"):
        made.apply(params, state, longer)
