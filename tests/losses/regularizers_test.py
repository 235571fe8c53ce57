"""PVSE's and PCME's regularizers against torch's autograd, at zero, and on eight devices."""

import dataclasses

import jax
import numpy as np
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.losses import LOSSES

IDS = np.arange(8, dtype=np.int32)


@pytest.fixture
def views(make_pairs):
    """Eight items of three vectors, near the unit sphere, and their residuals."""
    rng = np.random.default_rng(5)
    return [
        dataclasses.replace(
            view,
            vector=view.vector / np.linalg.norm(view.vector, axis=-1, keepdims=True),
            extras={"residuals": rng.uniform(0.1, 1, view.vector.shape).astype(np.float32)},
        )
        for view in make_pairs(8, samples=3)
    ]


def torch_diversity(torch, left, right):
    total = 0
    for residuals in (left["residuals"], right["residuals"]):
        unit = residuals / residuals.norm(dim=-1, keepdim=True)
        per_item = []
        for item in unit:
            cosines = item @ item.T
            cosines = cosines - torch.diag(torch.diag(cosines))
            per_item.append(cosines.norm() / len(item) ** 2)
        total = total + torch.stack(per_item).mean()
    return total


def torch_mmd(torch, left, right, squared):
    x, y = (side["vector"].flatten(0, 1) for side in (left, right))

    def kernel(one, other):
        distances = torch.norm(one[:, None] - other, dim=2)
        return torch.exp(-0.5 * (distances**2 if squared else distances))

    return (kernel(x, x) - 2 * kernel(x, y) + kernel(y, y)).mean()


def torch_uniformity(torch, left, right):
    points = torch.cat([side["vector"].flatten(0, 1) for side in (left, right)])
    return torch.pdist(points).pow(2).mul(-2).exp().mean().log()


ROWS = [
    ("diversity", {}, torch_diversity),
    ("mmd", {}, lambda *args: torch_mmd(*args, squared=False)),
    ("mmd", {"distance": "squared"}, lambda *args: torch_mmd(*args, squared=True)),
    ("uniformity", {}, torch_uniformity),
]


def gradients_of(name, options, views, context):
    @jax.jit
    @jax.value_and_grad
    def loss(views):
        return LOSSES[name].function(*views, context, **options)[0]

    return loss(views)


@pytest.mark.parametrize("coincide", [False, True])
@pytest.mark.parametrize(("name", "options", "reference"), ROWS)
def test_equals_torch(views, make_context, name, options, reference, coincide):
    torch = pytest.importorskip("torch")
    if coincide:  # Two items of one side, two views of one item, all residuals of one item.
        views[0].vector[1] = views[0].vector[0]
        views[1].vector[2] = views[0].vector[2]
        views[0].extras["residuals"][3] = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    value, gradients = gradients_of(name, options, views, make_context(IDS, "max_cosine"))
    sides = [
        {"vector": torch.tensor(view.vector), "residuals": torch.tensor(view.extras["residuals"])}
        for view in views
    ]
    for side in sides:
        for leaf in side.values():
            leaf.requires_grad_()
    expected = reference(torch, *sides)
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-4, atol=1e-6)
    for gradient, side in zip(gradients, sides, strict=True):
        for found, leaf in (
            (gradient.vector, side["vector"]),
            (gradient.extras["residuals"], side["residuals"]),
        ):
            wanted = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
            scale = max(np.abs(wanted).max(), 1e-6)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-4 * scale)


@pytest.mark.parametrize(("name", "options"), [row[:2] for row in ROWS])
def test_eight_devices_equal_one(views, make_context, name, options):
    key = jax.random.key(2)
    if name == "uniformity":
        options = {"max_points": 9}
    expected = gradients_of(name, options, views, make_context(IDS, "max_cosine", key=key))
    mesh = mesh_lib.make_mesh()
    assert mesh.size == 8
    sharded = jax.device_put(views, mesh_lib.batch_sharded(mesh))
    found = gradients_of(
        name, options, sharded, make_context(IDS, "max_cosine", key=key, mesh=mesh)
    )
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_uniformity_draws_of_many(views, make_context):
    """Drawn points repeat for a key, and their mean is near that of all pairs."""
    everything, _ = LOSSES["uniformity"].function(*views, make_context(IDS, "max_cosine"))
    draw = jax.jit(
        lambda key: LOSSES["uniformity"].function(
            *views, make_context(IDS, "max_cosine", key=key), max_points=24
        )[0]
    )
    found = np.array([draw(jax.random.key(seed)) for seed in range(40)])
    assert draw(jax.random.key(0)) == found[0] != found[1]
    # A point may be drawn twice, at distance 0, so the value is slightly larger than over all
    # pairs.
    share = (np.exp(found).mean() - 1 / 48) / (1 - 1 / 48)
    np.testing.assert_allclose(share, np.exp(everything), rtol=0.1)
