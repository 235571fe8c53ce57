"""Global attention against torch modules written from the paper's description, and its padding."""

import dataclasses

import jax
import numpy as np
import pytest

from xmodal.base.config import UserError
from xmodal.models import Features, Mode
from xmodal.models.heads import make_head

ITEMS, TOKENS, WIDTH = 5, 7, 6
VALUES = np.random.default_rng(0).normal(size=(ITEMS, TOKENS, 4)).astype(np.float32)


def make(features, **config):
    head = make_head("head", {"name": "global_attention", **config})
    shapes = jax.eval_shape(
        lambda features: head.init(jax.random.key(0), features, Mode.EVALUATE), features
    )
    rng = np.random.default_rng(1)

    def fill(path, leaf):
        noise = 0.7 * rng.normal(size=leaf.shape).astype(np.float32)
        return np.abs(noise) + 0.5 if path[-1].key == "var" else noise

    return head, jax.tree_util.tree_map_with_path(fill, shapes)


def linear(torch, layer, x):
    x = x @ torch.tensor(layer["kernel"])
    return x + torch.tensor(layer["bias"]) if "bias" in layer else x


def compute_in_torch(torch, variables, tokens, train=None):
    """Vector and tokens of items without padding; `train` for batch statistics, None for none."""
    params, stats = variables["params"], variables.get("batch_stats", {})

    def norm(name, channels, x):
        module = torch.nn.BatchNorm1d(channels)
        module.weight.data = torch.tensor(params[name]["scale"])
        module.bias.data = torch.tensor(params[name]["bias"])
        module.running_mean.data = torch.tensor(stats[name]["mean"])
        module.running_var.data = torch.tensor(stats[name]["var"])
        return module.train(train)(x)

    x = torch.tensor(tokens)
    if "linear" in params:
        x = linear(torch, params["linear"], x)
    x = x / x.pow(2).sum(-1, keepdim=True).sqrt()
    local, whole = linear(torch, params["local"], x), linear(torch, params["global"], x.mean(1))
    if train is not None:
        local = norm("local_norm", x.shape[1], local)  # The position is torch's channel.
        whole = norm("global_norm", x.shape[2], whole)
    common = torch.tanh(local) * torch.tanh(whole)[:, None]
    weights = torch.softmax(linear(torch, params["weight"], common)[..., 0], 1)
    vector = (weights[..., None] * x).sum(1)
    return (vector / vector.pow(2).sum(-1, keepdim=True).sqrt()).detach().numpy(), x.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True])
def test_images_equal_torch(train):
    torch = pytest.importorskip("torch")
    features = Features(VALUES)
    head, variables = make(features, width=WIDTH, batch_norm=True, dropout=0.0)
    mode = Mode.TRAIN if train else Mode.EVALUATE
    found, _ = head.apply(
        variables, features, mode, mutable=["batch_stats"], rngs={"dropout": jax.random.key(0)}
    )
    vector, tokens = compute_in_torch(torch, variables, VALUES, train)
    np.testing.assert_allclose(found.vector, vector, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.extras["tokens"], tokens, rtol=1e-4, atol=1e-5)
    assert variables["params"]["local_norm"]["scale"].shape == (TOKENS,)


def test_texts_equal_torch_without_their_padding():
    torch = pytest.importorskip("torch")
    lengths = np.array([7, 1, 3, 2, 5])
    mask = np.arange(TOKENS) < lengths[:, None]
    features = Features(np.where(mask[..., None], VALUES, np.nan), mask)
    head, variables = make(features, dropout=0.0)
    found = jax.jit(lambda features: head.apply(variables, features, Mode.EVALUATE))(features)
    np.testing.assert_array_equal(found.extras["mask"], mask)
    assert not found.extras["tokens"][~mask].any()
    for item, length in enumerate(lengths):
        vector, tokens = compute_in_torch(torch, variables, VALUES[item : item + 1, :length])
        np.testing.assert_allclose(found.vector[item], vector[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            found.extras["tokens"][item, :length], tokens[0], rtol=1e-4, atol=1e-5
        )


def test_dropout_in_training_only():
    features = Features(VALUES)
    head, variables = make(features, dropout=0.5)
    still, drawn = (
        jax.jit(
            lambda key, mode=mode: head.apply(variables, features, mode, rngs={"dropout": key})
        )(jax.random.key(0)).vector
        for mode in (Mode.EVALUATE, Mode.TRAIN)
    )
    assert np.abs(np.asarray(still) - drawn).max() > 0.01


def test_batch_normalization_needs_a_fixed_number_of_tokens():
    features = Features(VALUES)
    head, variables = make(features, batch_norm=True)
    masked = dataclasses.replace(features, mask=np.ones((ITEMS, TOKENS), bool))
    with pytest.raises(UserError, match=r"global_attention.*number of tokens, but here it varies"):
        head.apply(variables, masked, Mode.EVALUATE)
