import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.models import text_tower


def _inputs(lengths, tokens, vocab_size, seed=0):
    ids = np.random.default_rng(seed).integers(0, vocab_size, (len(lengths), tokens), np.int32)
    mask = (np.arange(tokens) < np.asarray(lengths)[:, None]).astype(np.int32)
    return {"text_ids": ids, "text_mask": mask}


def _reference(params, ids, length, heads):
    """The sequence output of one text."""
    x = np.asarray(params["word_embeddings"], np.float64)[ids]
    x = x + np.asarray(params["position_embeddings"])[: len(ids)]
    x = x + np.asarray(params["token_type_embeddings"])[0]
    x = reference.layer_norm(x, 1e-12, **params["embeddings_norm"])
    for layer in range(params["layers"]["query"]["kernel"].shape[0]):
        one = jax.tree.map(lambda leaf, layer=layer: leaf[layer], params["layers"])
        x = reference.bert_layer(one, x, length, heads)
    return x


@pytest.mark.parametrize(
    ("width", "depth", "heads", "tokens", "lengths"),
    [(24, 3, 4, 9, (9, 1, 5)), (30, 1, 2, 7, (2, 7)), (16, 4, 1, 1, (1,))],
)
@pytest.mark.parametrize("pool", ["first", "mean"])
def test_equals_the_reference(width, depth, heads, tokens, lengths, pool, random_variables):
    tower = text_tower.make_tower(
        vocab_size=37, width=width, depth=depth, heads=heads, mlp_dim=40, max_positions=11,
        pool=pool,
    )  # fmt: skip
    inputs = _inputs(lengths, tokens, 37)
    params, state = random_variables(tower, inputs, scale=0.3)
    embedding, _ = jax.jit(tower.apply)(params, state, inputs)
    for row, length in enumerate(lengths):
        outputs = _reference(params["bert"], inputs["text_ids"][row], length, heads)
        expected = outputs[0] if pool == "first" else outputs[:length].mean(0)
        np.testing.assert_allclose(embedding.vector[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lower_depth", [0, 1, 3])
def test_lower_part_apart(lower_depth, random_variables):
    """Layers kept apart compute the same, and so does the rest on the lower part's output."""
    options = {
        "vocab_size": 37, "width": 24, "depth": 4, "heads": 4, "mlp_dim": 40, "max_positions": 9,
        "pool": "mean", "projection": 5,
    }  # fmt: skip
    inputs = _inputs((9, 1, 5), 9, 37)
    whole = text_tower.make_tower(**options)
    split = text_tower.make_tower(lower_depth=lower_depth, **options)
    params, state = random_variables(whole, inputs, scale=0.3)
    layers = params["bert"]["layers"]
    bert = params["bert"] | {"layers": jax.tree.map(lambda x: x[lower_depth:], layers)}
    if lower_depth:
        bert["lower_layers"] = jax.tree.map(lambda x: x[:lower_depth], layers)
    parts = params | {"bert": bert}
    assert jax.tree.structure(split.init(jax.random.key(0), inputs)[0]) == jax.tree.structure(parts)
    expected = whole.apply(params, state, inputs)[0].vector
    np.testing.assert_allclose(split.apply(parts, state, inputs)[0].vector, expected, atol=1e-5)

    features = split.features(parts, state, inputs)
    unread = parts | {"bert": {"layers": bert["layers"]} if lower_depth else {}}
    cached = {"text_features": features, "text_mask": inputs["text_mask"]}
    np.testing.assert_allclose(split.apply(unread, state, cached)[0].vector, expected, atol=1e-5)


@pytest.mark.parametrize("lower_depth", [-1, 2])
def test_lower_depth_beyond_the_layers(lower_depth):
    with pytest.raises(ValueError, match=f"lower_depth={lower_depth} .* depth of 2"):
        text_tower.make_tower(depth=2, lower_depth=lower_depth)


def test_dropout_is_random_in_training_only(random_variables):
    tower = text_tower.make_tower(
        vocab_size=37, width=16, depth=2, heads=2, mlp_dim=20, max_positions=8, dropout=0.5
    )
    inputs = _inputs((8, 3), 8, 37)
    params, state = random_variables(tower, inputs)
    train = jax.jit(lambda key: tower.apply(params, state, inputs, train=True, key=key)[0].vector)
    first, same, other = (train(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.1
    evaluated = [tower.apply(params, state, inputs)[0].vector for _ in range(2)]
    np.testing.assert_array_equal(*evaluated)


def test_bfloat16_stays_close(random_variables):
    options = {"vocab_size": 37, "width": 32, "depth": 2, "heads": 4, "mlp_dim": 64}
    inputs = _inputs((8, 3), 8, 37)
    exact = text_tower.make_tower(**options)
    params, state = random_variables(exact, inputs)
    rounded = text_tower.make_tower(dtype="bfloat16", **options)
    embedding, _ = rounded.apply(params, state, inputs)
    assert embedding.vector.dtype == jnp.float32
    expected = exact.apply(params, state, inputs)[0].vector
    np.testing.assert_allclose(embedding.vector, expected, atol=0.05 * np.abs(expected).max())


def test_errors_name_the_remedy():
    options = {"vocab_size": 37, "width": 16, "depth": 1, "heads": 3, "mlp_dim": 20}
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="width of 16 does not split into 3 heads"):
        text_tower.make_tower(**options).init(key, _inputs((4,), 4, 37))
    options["heads"] = 2
    with pytest.raises(ValueError, match="5 tokens, but BERT has max_positions=4"):
        text_tower.make_tower(max_positions=4, **options).init(key, _inputs((5,), 5, 37))
    with pytest.raises(
        ValueError, match="'max' in config.model.text.pool; known: .'first', 'mean'"
    ):
        text_tower.make_tower(pool="max", **options)
    tower, ids = text_tower.make_tower(**options), np.ones((2, 5), np.int32)
    with pytest.raises(ValueError, match=r"int32 \[2, 5\] and int32 \[2, 4\]"):
        tower.init(key, (ids, ids[:, 1:]))
    with pytest.raises(ValueError, match=r"float32 \[2, 5\]"):
        tower.init(key, (ids.astype(np.float32), ids))
