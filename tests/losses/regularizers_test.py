"""PVSE's and PCME's regularizers against torch's autograd, at zero, and on eight devices."""

import dataclasses

import jax
import numpy as np
import pytest

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
