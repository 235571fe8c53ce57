"""The pooling of VSE-infinity against torch modules written from its description."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_gru import check_gradients, make_gru

from xmodal.models import Features, Mode
from xmodal.models.heads import gpo, make_head

LENGTHS = (7, 1, 5, 3)
TOKENS = np.random.default_rng(0).normal(size=(4, 9, 6)).astype(np.float32)
MASK = np.arange(9) < np.array(LENGTHS)[:, None]


def by_direction(layer):
    return {name: layer[f"layer1_{name}"] for name in ("forward", "backward")}


def torch_weights(torch, params, lengths, longest, code_width, hidden, temperature):
    """Weights [N, T] of packed position codes."""
    position = torch.arange(longest).unsqueeze(1).float()
    rate = torch.exp(torch.arange(0, code_width, 2).float() * -(np.log(10000.0) / code_width))
    code = torch.zeros(longest, code_width)
    code[:, 0::2], code[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
    gru = make_gru(torch, by_direction(params["recurrent"]))
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        code.expand(len(lengths), -1, -1), lengths, batch_first=True, enforce_sorted=False
    )
    outputs, _ = torch.nn.utils.rnn.pad_packed_sequence(gru(packed)[0], batch_first=True)
    mean = (outputs[..., :hidden] + outputs[..., hidden:]) / 2
    score = torch.tensor(params["score"]["kernel"], requires_grad=True)
    scores = (mean @ score)[..., 0]
    real = torch.arange(longest) < torch.tensor(lengths)[:, None]
    weights = torch.softmax(scores.masked_fill(~real, -10000) / temperature, dim=1)
    return weights, real, {"score": score, "gru": gru}


def torch_pool(tokens, weights, real):
    filled = tokens.masked_fill(~real[..., None], -10000)
    values = filled.sort(dim=1, descending=True)[0].masked_fill(~real[..., None], 0)
    return (values * weights[..., None]).sum(1)


def make(config, features, seed=0, mode=Mode.TRAIN):
    head = make_head("head", {"name": "gpo", "code_width": 6, "hidden": 5, **config})
    init = partial(head.init, features=features, mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    rng = np.random.default_rng(seed)

    def fill(path, leaf):
        noise = 0.4 * rng.normal(size=leaf.shape).astype(np.float32)  # no saturated softmax
        return np.abs(noise) + 0.5 if path[-1].key in ("var", "scale") else noise

    return head, jax.tree_util.tree_map_with_path(fill, shapes)


@pytest.mark.parametrize("masked", [True, False])
def test_equals_torch_with_every_gradient(masked):
    torch = pytest.importorskip("torch")
    features = Features(TOKENS, MASK if masked else None)
    head, variables = make({}, features)
    target = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)

    @jax.jit
    def run(params, tokens):
        def loss(params, tokens):
            found = head.apply({"params": params}, Features(tokens, features.mask), Mode.TRAIN)
            return jnp.sum(found.vector * target), found

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(params, tokens)

    # The content of the padding does not matter.
    garbage = np.where(MASK[..., None], TOKENS, np.nan) if masked else TOKENS
    (_, embedding), (of_params, of_tokens) = run(variables["params"], garbage)
    lengths = list(LENGTHS) if masked else [9] * 4
    longest = max(lengths)
    params = variables["params"]["position_weights"]
    weights, real, parts = torch_weights(torch, params, lengths, longest, 6, 5, 0.1)
    tokens = torch.tensor(TOKENS[:, :longest], requires_grad=True)
    pooled = torch_pool(tokens, weights, real)
    (pooled * torch.tensor(target)).sum().backward()
    np.testing.assert_allclose(embedding.vector, pooled.detach(), rtol=1e-4, atol=1e-5)
    found_weights = np.asarray(embedding.extras["weights"])
    np.testing.assert_allclose(found_weights[:, :longest], weights.detach(), rtol=1e-4, atol=1e-6)
    assert not found_weights[:, longest:].any()
    np.testing.assert_allclose(of_tokens[:, :longest], tokens.grad, rtol=1e-4, atol=1e-5)
    assert not np.any(of_tokens[:, longest:])
    of_weights = of_params["position_weights"]
    np.testing.assert_allclose(
        of_weights["score"]["kernel"], parts["score"].grad, rtol=1e-4, atol=1e-4
    )
    check_gradients(parts["gru"], by_direction(of_weights["recurrent"]))


@pytest.mark.parametrize("norm_padding", [True, False])
def test_regions_equal_torch_with_statistics_over_padding_or_without(norm_padding):
    torch = pytest.importorskip("torch")
    config = {"width": 8, "mlp": 4, "norm_padding": norm_padding}
    # The regions of an item need not be adjacent; torch's batch is as long as its longest item.
    holes = np.random.default_rng(3).permuted(MASK, axis=1)
    features = Features(TOKENS, holes)
    head, variables = make(config, features)
    params, stats = variables["params"], variables["batch_stats"]["mlp_norm"]
    longest = max(LENGTHS)
    rows = np.zeros((4, longest, 6), np.float32)
    for row, (item, mask) in enumerate(zip(TOKENS, holes, strict=True)):
        rows[row, : mask.sum()] = item[mask]
    x = torch.tensor(rows, requires_grad=True)
    leaves = {}

    def linear(name, x):
        weight = torch.tensor(params[name]["kernel"].T, requires_grad=True)
        leaves[name] = weight
        return torch.nn.functional.linear(x, weight, torch.tensor(params[name]["bias"]))

    hidden = linear("mlp_hidden", x)
    real = torch.arange(longest) < torch.tensor(LENGTHS)[:, None]
    seen = hidden.reshape(-1, 4) if norm_padding else hidden[real]
    norm = torch.nn.BatchNorm1d(4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor(params["mlp_norm"]["scale"]))
        norm.bias.copy_(torch.tensor(params["mlp_norm"]["bias"]))
        norm.running_mean.copy_(torch.tensor(stats["mean"]))
        norm.running_var.copy_(torch.tensor(stats["var"]))
    normed = norm(seen)
    if norm_padding:
        normed = normed.reshape(4, longest, 4)
    else:
        normed = torch.zeros(4, longest, 4).masked_scatter(real[..., None], normed)
    tokens = linear("linear", x) + linear("mlp_output", torch.relu(normed))
    weights, real, _ = torch_weights(
        torch, params["position_weights"], list(LENGTHS), longest, 6, 5, 0.1
    )
    pooled = torch_pool(tokens, weights, real)
    target = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    (pooled * torch.tensor(target)).sum().backward()

    @jax.jit
    def run(params):
        def loss(params):
            found, state = head.apply(
                {"params": params, "batch_stats": variables["batch_stats"]},
                features, Mode.TRAIN, mutable=["batch_stats"],
            )  # fmt: skip
            return jnp.sum(found.vector * target), (found.vector, state["batch_stats"])

        return jax.grad(loss, has_aux=True)(params)

    gradients, (vector, moved) = run(params)
    np.testing.assert_allclose(vector, pooled.detach(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moved["mlp_norm"]["mean"], norm.running_mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved["mlp_norm"]["var"], norm.running_var, rtol=1e-5, atol=1e-6)
    for name, weight in leaves.items():
        scale = np.abs(weight.grad.numpy()).max()
        np.testing.assert_allclose(
            gradients[name]["kernel"], weight.grad.T, rtol=1e-4, atol=1e-4 * scale, err_msg=name
        )
    for name, grad in (("scale", norm.weight.grad), ("bias", norm.bias.grad)):
        np.testing.assert_allclose(gradients["mlp_norm"][name], grad, rtol=1e-4, atol=1e-4)


def test_the_order_of_tokens_and_the_padding_of_the_batch_do_not_matter():
    head, variables = make({"width": 8, "mlp": 4}, Features(TOKENS, MASK))
    apply = jax.jit(lambda features: head.apply(variables, features, Mode.EVALUATE).vector)
    expected = apply(Features(TOKENS, MASK))
    order = np.random.default_rng(5).permutation(9)
    np.testing.assert_allclose(
        apply(Features(TOKENS[:, order], MASK[:, order])), expected, rtol=1e-5, atol=1e-5
    )
    longer = Features(np.pad(TOKENS, ((0, 0), (0, 4), (0, 0))), np.pad(MASK, ((0, 0), (0, 4))))
    np.testing.assert_allclose(apply(longer), expected, rtol=1e-5, atol=1e-5)
    nothing = Features(TOKENS, np.zeros_like(MASK))
    assert not np.any(apply(nothing) - apply(Features(0 * TOKENS, np.zeros_like(MASK))))


@pytest.mark.slow
def test_tokens_are_dropped_in_training_alone():
    items, tokens = 4000, 16
    mask = np.ones((items, tokens), bool)
    mask[1::2, 10:] = False
    mask[0, 1:] = False

    class Drop(gpo.Gpo):
        def __call__(self, features, mode):
            return self._drop(features.full_mask())

    def dropped(**config):
        module = Drop(gpo.GpoConfig(**config))
        features = Features(np.zeros((items, tokens, 1), np.float32), mask)
        return np.asarray(
            module.apply({}, features, Mode.TRAIN, rngs={"dropout": jax.random.key(0)})
        )

    kept = dropped(drop=0.2)
    assert not (kept & ~mask).any()
    assert kept[0, 0]  # The only token of an item is kept.
    np.testing.assert_allclose(kept[mask].mean(), 0.8, atol=0.005)
    shares = kept.sum(1) / mask.sum(1)
    varying = dropped(drop=0.2, drop_varies=True)
    # The mean of 0.2 u over u > 0.2 is 0.12, and one item in five keeps all.
    np.testing.assert_allclose(1 - varying[mask].mean(), 0.8 * 0.12, atol=0.005)
    assert (shares == 1).mean() < 0.15 < 0.2 < (varying.sum(1) == mask.sum(1)).mean()

    head, variables = make({"drop": 0.5}, Features(TOKENS, MASK))
    vectors = [
        head.apply(
            variables, Features(TOKENS, MASK), mode, rngs={"dropout": jax.random.key(1)}
        ).vector
        for mode in (Mode.EVALUATE, Mode.FROZEN, Mode.TRAIN)
    ]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 0.1


@pytest.mark.parametrize("masked", [True, False])
def test_pooling_equals_a_sort_also_where_values_are_equal(masked):
    rng = np.random.default_rng(4)
    tokens = rng.integers(-2, 3, TOKENS.shape).astype(np.float32)
    weights = rng.normal(size=(4, 9)).astype(np.float32)
    if masked:
        weights = np.where(MASK, weights, 0)  # the first of each row, as `PositionWeights` gives
    target = rng.normal(size=(4, 6)).astype(np.float32)

    def sorted_first(tokens, weights):
        filled = jnp.where(MASK[..., None], tokens, -jnp.inf) if masked else tokens
        values = -jnp.sort(-filled, axis=1)
        values = jnp.where(jnp.isneginf(values), 0, values)
        return jnp.sum(jnp.einsum("ntd,nt->nd", values, weights) * target)

    def ours(tokens, weights):
        features = Features(tokens, MASK if masked else None)
        return jnp.sum(gpo.pool_sorted(features, weights) * target)

    got, wanted = (
        jax.jit(jax.value_and_grad(pool, argnums=(0, 1)))(tokens, weights)
        for pool in (ours, sorted_first)
    )
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), got, wanted)
