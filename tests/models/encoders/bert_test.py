import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.base.config import UserError


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


SIZES = {"vocab_size": 37, "mlp_dim": 40, "max_positions": 11}


@pytest.mark.parametrize(
    ("width", "depth", "heads", "tokens", "lengths"),
    [(24, 3, 4, 9, (9, 1, 5)), (30, 1, 2, 7, (2, 7)), (16, 4, 1, 1, (1,))],
)
@pytest.mark.parametrize("pool", ["first", "mean"])
def test_equals_the_reference(width, depth, heads, tokens, lengths, pool, random_variables, tower):
    made = tower("bert", head={"name": pool}, width=width, depth=depth, heads=heads, **SIZES)
    inputs = _inputs(lengths, tokens, 37)
    params, state = random_variables(made, inputs, scale=0.3)
    embedding, _ = jax.jit(made.apply)(params, state, inputs)
    for row, length in enumerate(lengths):
        outputs = _reference(params["encoder"], inputs["text_ids"][row], length, heads)
        expected = outputs[0] if pool == "first" else outputs[:length].mean(0)
        np.testing.assert_allclose(embedding.vector[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"remat": True}, {"unroll": True, "remat": True}])
def test_remat_and_unroll_change_no_number(options, random_variables, tower):
    sizes = {"width": 24, "depth": 3, "heads": 4, "projection": 5, "dropout": 0.3, **SIZES}
    inputs = _inputs((9, 1, 5), 9, 37)
    plain, other = tower("bert", **sizes), tower("bert", **sizes, **options)
    params, state = random_variables(plain, inputs, scale=0.3)

    def gradient(tower):
        def loss(params):
            embedding, _ = tower.apply(params, state, inputs, train=True, key=jax.random.key(3))
            return jnp.sum(jnp.sin(embedding.vector))

        compiled = jax.jit(jax.grad(loss)).lower(params).compile()
        return compiled(params), compiled.memory_analysis().temp_size_in_bytes

    (expected, memory), (found, less) = gradient(plain), gradient(other)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), found, expected
    )
    if not options.get("unroll"):
        assert less < memory


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


@pytest.mark.slow
def test_the_lower_part_never_drops(random_variables, tower):
    """Training from stored features uses the same random numbers as training from ids."""
    made = tower("bert", width=16, depth=2, heads=2, lower_depth=1, dropout=0.5, **SIZES)
    inputs = _inputs((8, 3), 8, 37)
    params, state = random_variables(made, inputs)
    stored = jax.jit(made.frozen_features)(params, state, inputs) | {
        "text_mask": inputs["text_mask"]
    }
    train, key = jax.jit(functools.partial(made.apply, train=True)), jax.random.key(0)
    vectors = [train(params, state, given, key=key)[0].vector for given in (inputs, stored)]
    np.testing.assert_allclose(*vectors, atol=1e-5)
    evaluated = jax.jit(made.apply)(params, state, inputs)[0].vector
    assert np.abs(vectors[0] - evaluated).max() > 0.1


def test_dropout_is_random_in_training_only(random_variables, tower):
    made = tower("bert", width=16, depth=2, heads=2, dropout=0.5, **SIZES)
    inputs = _inputs((8, 3), 8, 37)
    params, state = random_variables(made, inputs)

    @functools.partial(jax.jit, static_argnums=1)
    def train(key, frozen=()):
        return made.apply(params, state, inputs, train=True, frozen=frozen, key=key)[0].vector

    first, same, other = (train(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.1
    evaluated = jax.jit(made.apply)(params, state, inputs)[0].vector
    frozen = train(jax.random.key(0), ("encoder",))
    np.testing.assert_allclose(frozen, evaluated, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_bfloat16_stays_close(random_variables, tower):
    options = {"width": 32, "depth": 2, "heads": 4, **SIZES}
    inputs = _inputs((8, 3), 8, 37)
    exact = tower("bert", **options)
    params, state = random_variables(exact, inputs)
    embedding, _ = tower("bert", dtype="bfloat16", **options).apply(params, state, inputs)
    assert embedding.vector.dtype == jnp.float32
    expected = exact.apply(params, state, inputs)[0].vector
    np.testing.assert_allclose(embedding.vector, expected, atol=0.05 * np.abs(expected).max())


def test_errors_name_the_remedy(tower):
    options = {"vocab_size": 37, "width": 16, "depth": 1, "mlp_dim": 20}
    key = jax.random.key(0)
    with pytest.raises(UserError, match="width=16, not a multiple of its heads=3"):
        tower("bert", heads=3, **options).init(key, _inputs((4,), 4, 37))
    options["heads"] = 2
    with pytest.raises(UserError, match="5 tokens, but BERT has max_positions=4"):
        tower("bert", max_positions=4, **options).init(key, _inputs((5,), 5, 37))
    with pytest.raises(UserError, match="lower_depth=1 must be less than the depth of 1"):
        tower("bert", lower_depth=1, **options)
    with pytest.raises(UserError, match="lower_depth is -1; it must be at least 0"):
        tower("bert", lower_depth=-1, **options)
    made, ids = tower("bert", **options), np.ones((2, 5), np.int32)
    with pytest.raises(ValueError, match=r"int32 \[2, 5\] and int32 \[2, 4\]"):
        made.init(key, {"text_ids": ids, "text_mask": ids[:, 1:]})
    with pytest.raises(ValueError, match=r"float32 \[2, 5\]"):
        made.init(key, {"text_ids": ids.astype(np.float32), "text_mask": ids})
