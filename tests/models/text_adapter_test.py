import jax
import numpy as np
import pytest
import transformer_reference as reference

from xmodal.models import text_adapter, text_tower

REFERENCES = {"milan": reference.milan_block, "standard": reference.standard_block}
BERT = {"vocab_size": 29, "width": 12, "depth": 1, "heads": 2, "mlp_dim": 16, "max_positions": 9}


def _tower(block, pool, **options):
    adapter = {"block": block, "width": 20, "depth": 3, "heads": 4, "mlp_dim": 24}
    return text_tower.make_tower(adapter=adapter, pool=pool, projection=6, **BERT, **options)


def _inputs(lengths, tokens, seed=0):
    ids = np.random.default_rng(seed).integers(0, 29, (len(lengths), tokens), np.int32)
    return ids, (np.arange(tokens) < np.asarray(lengths)[:, None]).astype(np.int32)


@pytest.mark.parametrize("block", text_adapter.BLOCKS)
@pytest.mark.parametrize("first_only", [False, True])
def test_equals_the_reference(block, first_only):
    adapter = text_adapter.make_adapter(
        block=block, width=20, depth=3, heads=4, mlp_dim=24, first_only=first_only, dtype="float32"
    )
    rng = np.random.default_rng(0)
    tokens, lengths = rng.normal(size=(3, 7, 12)).astype(np.float32), (7, 1, 4)
    mask = np.arange(7) < np.asarray(lengths)[:, None]
    shapes = jax.eval_shape(adapter.init, jax.random.key(0), tokens, mask)
    variables = jax.tree.map(lambda leaf: rng.normal(0, 0.3, leaf.shape), shapes)
    outputs = jax.jit(adapter.apply)(variables, tokens, mask)
    assert outputs.shape == (3, 1 if first_only else 7, 20)
    params = variables["params"]
    for row, length in enumerate(lengths):
        x = reference.relu(reference.dense(params["input"], tokens[row]))
        for layer in ("layer1", "layer2", "layer3"):
            x = REFERENCES[block](params[layer], x, length, heads=4)
        np.testing.assert_allclose(outputs[row], x[: outputs.shape[1]], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("block", text_adapter.BLOCKS)
@pytest.mark.parametrize("pool", ["first", "mean"])
def test_padding_does_not_matter(block, pool, random_variables):
    tower = _tower(block, pool)
    ids, mask = _inputs((6, 2, 4), 6)
    params, state = random_variables(tower, (ids, mask), scale=0.3)
    apply = jax.jit(tower.apply)
    expected = apply(params, state, (ids, mask))[0].vector
    assert expected.shape == (3, 6)
    garbage = np.where(mask == 1, ids, (ids + 7) % 29)
    np.testing.assert_allclose(apply(params, state, (garbage, mask))[0].vector, expected, atol=1e-6)
    longer = [np.pad(x, ((0, 0), (0, 3))) for x in (ids, mask)]
    np.testing.assert_allclose(
        apply(params, state, tuple(longer))[0].vector, expected, rtol=1e-4, atol=1e-5
    )


def test_the_authors_block_starts_with_neutral_scales():
    block = text_adapter.MilanBlock(heads=4, mlp_dim=24, dtype=np.float32)
    x, mask = np.ones((1, 3, 20), np.float32), np.ones((1, 3), bool)
    init = jax.jit(block.init, static_argnums=3)
    params = init(jax.random.key(0), x, mask, False)["params"]
    assert set(params) == {
        "attention_norm", "query", "key", "query_scale", "attention_output", "mlp_norm",
        "mlp_hidden", "mlp_output",
    }  # fmt: skip
    assert params["query_scale"].shape == (5,)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(params["attention_norm"]))
    bound = np.sqrt(6 / (20 + 24))
    kernel = np.abs(params["mlp_hidden"]["kernel"])
    assert 0.9 * bound < kernel.max() <= bound


def test_a_row_of_padding_gives_no_nan(random_variables):
    tower = _tower("milan", "mean")
    inputs = _inputs((3, 0), 5)
    params, state = random_variables(tower, inputs)
    assert np.all(np.isfinite(jax.jit(tower.apply)(params, state, inputs)[0].vector))


def test_unknown_options_list_the_known_ones():
    with pytest.raises(
        ValueError, match="'conformer' in config.model.text.adapter.block; known: .'milan', 'stand"
    ):
        _tower("conformer", "first")
    with pytest.raises(
        ValueError, match=r"\['layers'\] in config.model.text.adapter; known: .'block', "
    ):
        text_tower.make_tower(adapter={"layers": 3}, **BERT)
