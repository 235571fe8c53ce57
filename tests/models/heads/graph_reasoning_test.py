"""VSRN's graph reasoning against torch modules written from its description."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_gru import check, check_gradients, make_gru

from xmodal.models import Features, Mode
from xmodal.models.heads import make_head

ITEMS, REGIONS, WIDTH, LAYERS = 5, 7, 6, 4
TOKENS = np.random.default_rng(0).normal(size=(ITEMS, REGIONS, 4)).astype(np.float32)


def make(**config):
    head = make_head("head", {"name": "graph", "width": WIDTH, "layers": LAYERS, **config})
    init = partial(head.init, features=Features(TOKENS), mode=Mode.EVALUATE)
    shapes = jax.eval_shape(init, jax.random.key(0))
    rng = np.random.default_rng(1)

    def fill(path, leaf):
        noise = 0.7 * rng.normal(size=leaf.shape).astype(np.float32)
        if [each.key for each in path[-2:]] == ["output", "bias"]:
            return 30 * noise  # A mean that the batch normalization has to remove.
        return np.abs(noise) + 0.5 if path[-1].key == "var" else noise

    return head, jax.tree_util.tree_map_with_path(fill, shapes)


def as_torch(torch, params, stats, input_norm, output_norm):
    """The channels-first forward pass, as for torch's convolutions."""
    functional, leaves, norms = torch.nn.functional, {}, {}

    def leaf(name, array):
        leaves[name] = torch.tensor(np.asarray(array), requires_grad=True)
        return leaves[name]

    def normalize(x, over):  # x [B, N, D]
        if over == "none":
            return x
        return x / x.pow(2).sum(dim={"regions": 1, "channels": 2}[over], keepdim=True).sqrt()

    def conv(name, part, x):  # x [B, D, N]
        weight = leaf(f"{name}/kernel", part["kernel"]).T[..., None]
        return functional.conv1d(x, weight, leaf(f"{name}/bias", part["bias"]))

    gru = make_gru(torch, {"forward": params["recurrent"]["layer1_forward"]})

    def forward(tokens):
        weight = leaf("linear/kernel", params["linear"]["kernel"])
        x = tokens @ weight + leaf("linear/bias", params["linear"]["bias"])
        x = normalize(x, input_norm).permute(0, 2, 1)
        for number in range(1, LAYERS + 1):
            layer = params[f"layer{number}"]
            theta, phi, g = (
                conv(f"layer{number}/{name}", layer[name], x) for name in ("query", "key", "value")
            )
            relation = theta.permute(0, 2, 1) @ phi / x.shape[-1]
            y = (relation @ g.permute(0, 2, 1)).permute(0, 2, 1)
            norm = norms[number] = torch.nn.BatchNorm1d(WIDTH)
            with torch.no_grad():
                norm.weight.copy_(torch.tensor(layer["norm"]["scale"]))
                norm.bias.copy_(torch.tensor(layer["norm"]["bias"]))
                norm.running_mean.copy_(torch.tensor(stats[f"layer{number}"]["norm"]["mean"]))
                norm.running_var.copy_(torch.tensor(stats[f"layer{number}"]["norm"]["var"]))
            x = norm(conv(f"layer{number}/output", layer["output"], y)) + x
        regions = normalize(x.permute(0, 2, 1), output_norm)
        return gru(regions)[1][-1], regions

    return forward, leaves, norms, gru


@pytest.mark.slow
@pytest.mark.parametrize(
    ("input_norm", "output_norm"), [("regions", "regions"), ("none", "regions"),
                                    ("channels", "channels")]
)  # fmt: skip
def test_equals_torch_with_every_gradient(input_norm, output_norm):
    torch = pytest.importorskip("torch")
    head, variables = make(input_norm=input_norm, output_norm=output_norm)
    params, stats = variables["params"], variables["batch_stats"]
    forward, leaves, norms, gru = as_torch(torch, params, stats, input_norm, output_norm)
    rng = np.random.default_rng(2)
    of_vector = rng.normal(size=(ITEMS, WIDTH)).astype(np.float32)
    of_regions = rng.normal(size=(ITEMS, REGIONS, WIDTH)).astype(np.float32)
    tokens = torch.tensor(TOKENS, requires_grad=True)
    vector, regions = forward(tokens)
    (
        (vector * torch.tensor(of_vector)).sum() + (regions * torch.tensor(of_regions)).sum()
    ).backward()

    @jax.jit
    def run(params, tokens):
        def loss(params, tokens):
            found, state = head.apply(
                {"params": params, "batch_stats": stats}, Features(tokens), Mode.TRAIN,
                mutable=["batch_stats"],
            )  # fmt: skip
            total = jnp.sum(found.vector * of_vector)
            return total + jnp.sum(found.extras["regions"] * of_regions), (found, state)

        return jax.grad(loss, argnums=(0, 1), has_aux=True)(params, tokens)

    (of_params, of_tokens), (found, state) = run(params, TOKENS)
    check(found.vector, vector.detach(), 1e-5)
    check(found.extras["regions"], regions.detach(), 1e-5)
    check(of_tokens, tokens.grad, 1e-4)
    for path, wanted in leaves.items():
        *parts, name = path.split("/")
        got = of_params
        for part in [*parts, name]:
            got = got[part]
        if path.endswith("output/bias"):  # No gradient passes through the batch normalization.
            np.testing.assert_allclose(got, wanted.grad, atol=1e-4)
        else:
            check(got, wanted.grad, 1e-4)
    check_gradients(gru, {"forward": of_params["recurrent"]["layer1_forward"]}, 1e-4)
    for number, norm in norms.items():
        got = of_params[f"layer{number}"]["norm"]
        check(got["scale"], norm.weight.grad, 1e-4)
        check(got["bias"], norm.bias.grad, 1e-4)
        moved = state["batch_stats"][f"layer{number}"]["norm"]
        check(moved["mean"], norm.running_mean)
        check(moved["var"], norm.running_var)


@pytest.mark.slow
def test_padding_changes_nothing_and_gives_no_nan():
    head, variables = make()
    lengths = np.array([7, 3, 3, 7, 3])
    mask = np.arange(REGIONS) < lengths[:, None]
    apply = jax.jit(lambda features: head.apply(variables, features, Mode.EVALUATE))
    whole = apply(Features(np.where(mask[..., None], TOKENS, np.nan), mask))
    for row, length in enumerate(lengths):
        alone = apply(Features(TOKENS[row : row + 1, :length]))
        np.testing.assert_allclose(whole.vector[row], alone.vector[0], rtol=1e-4, atol=1e-5)
    assert not whole.extras["regions"][~mask].any()
    # A channel that is zero in all regions, and an image without regions.
    silent = jax.tree.map(np.zeros_like, variables["params"]["linear"])
    zeros = variables["params"] | {"linear": silent}

    def total(params):
        features = Features(TOKENS, np.zeros_like(mask))
        found = head.apply({**variables, "params": params}, features, Mode.EVALUATE)
        return jnp.sum(found.vector)

    assert all(
        np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(jax.jit(jax.grad(total))(zeros))
    )


@pytest.mark.slow
def test_graph_layers_start_as_the_identity():
    head = make_head("head", {"name": "graph", "width": WIDTH, "layers": 3})
    variables = jax.jit(partial(head.init, features=Features(TOKENS), mode=Mode.EVALUATE))(
        jax.random.key(0)
    )
    plain = make_head("head", {"name": "graph", "width": WIDTH, "layers": 0})
    without = {name: variables["params"][name] for name in ("linear", "recurrent")}
    found, expected = (
        jax.jit(partial(made.apply, features=Features(TOKENS), mode=Mode.EVALUATE))(given)
        for made, given in ((head, variables), (plain, {"params": without}))
    )
    np.testing.assert_allclose(found.vector, expected.vector, rtol=1e-5, atol=1e-6)
