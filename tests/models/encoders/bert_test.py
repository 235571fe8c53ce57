import jax
import numpy as np
import pytest


def _inputs(lengths, tokens, vocab_size, seed=0):
    ids = np.random.default_rng(seed).integers(0, vocab_size, (len(lengths), tokens), np.int32)
    mask = (np.arange(tokens) < np.asarray(lengths)[:, None]).astype(np.int32)
    return {"text_ids": ids, "text_mask": mask}


SIZES = {"vocab_size": 37, "mlp_dim": 40, "max_positions": 11}


@pytest.mark.parametrize("lower_depth", [0, 1, 3])
def test_lower_part_apart(lower_depth, random_variables, tower):
    """Separate lower layers compute the same, as do the others from the frozen features."""
    options = {"width": 24, "depth": 4, "heads": 4, "projection": 5, **SIZES}
    inputs = _inputs((9, 1, 5), 9, 37)
    whole, split = tower("bert", **options), tower("bert", lower_depth=lower_depth, **options)
    params, state = random_variables(whole, inputs, scale=0.3)
    layers = params["encoder"]["layers"]
    encoder = params["encoder"] | {"layers": jax.tree.map(lambda x: x[lower_depth:], layers)}
    if lower_depth:
        encoder["lower_layers"] = jax.tree.map(lambda x: x[:lower_depth], layers)
    parts = params | {"encoder": encoder}
    fresh, _ = jax.eval_shape(split.init, jax.random.key(0), inputs)
    assert jax.tree.structure(fresh) == jax.tree.structure(parts)
    expected = jax.jit(whole.apply)(params, state, inputs)[0].vector
    apply = jax.jit(split.apply)
    np.testing.assert_allclose(apply(parts, state, inputs)[0].vector, expected, atol=1e-5)

    features = jax.jit(split.frozen_features)(parts, state, inputs)
    # Tokens, or three summands of their mean where no layer is left to compute.
    rows = 9 if lower_depth else 3
    assert features["text_features"].shape == (3, rows, 24)
    features["text_features"] = np.pad(features["text_features"], ((0, 0), (0, 9 - rows), (0, 0)))
    unread = parts | {"encoder": {"layers": encoder["layers"]} if lower_depth else {}}
    stored = features | {"text_mask": inputs["text_mask"]}
    np.testing.assert_allclose(apply(unread, state, stored)[0].vector, expected, atol=1e-5)

    paths = split.frozen_paths(parts)
    assert "encoder/word_embeddings" in paths
    assert "encoder/embeddings_norm/scale" in paths
    assert ("encoder/layers/query/kernel" in paths) == (not lower_depth)
    assert ("encoder/lower_layers/query/kernel" in paths) == bool(lower_depth)
