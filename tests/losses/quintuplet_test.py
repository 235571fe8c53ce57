"""AOQ's loss against torch."""

import dataclasses

import jax
import numpy as np
import pytest

from xmodal.losses import LOSSES

torch = pytest.importorskip("torch")

SIZE = 16
IDS = np.arange(SIZE, dtype=np.int32)


def aoq(vectors, margin, offline_margin, weight, weight_scale):
    """The loss of unit vectors I, T, I-, T-, I-', T-' [B, D], as the authors write it."""
    units = [x / x.norm(dim=1, keepdim=True) for x in vectors]
    image, text, image_1, text_1, image_2, text_2 = units
    scores = image @ text.T
    d = scores.diag()
    others = scores.masked_fill(torch.eye(len(d), dtype=torch.bool), -2.0)
    h_image, h_text = others.max(dim=1).values, others.max(dim=0).values

    def dot(x, y):
        return (x * y).sum(dim=1)

    online = 0.0
    for hardest, offline in ((h_image, dot(image, text_1)), (h_text, dot(image_1, text))):
        factor = weight - (offline - hardest) / weight_scale
        online = online + (factor * (margin + hardest - d).clamp(min=0)).sum()
    mined = [(image, text_1), (image_1, text), (image_1, text_1), (image_2, text_2)]
    return online + sum((offline_margin + dot(x, y) - d).clamp(min=0).sum() for x, y in mined)


@pytest.fixture(scope="module")
def vectors():
    """Six views; negatives near their anchors, so that weights of both signs occur."""
    rng = np.random.default_rng(3)
    image = rng.normal(size=(SIZE, 12))
    near = [image + 0.9 * rng.normal(size=image.shape) for _ in range(5)]
    return [x.astype(np.float32) for x in (image, *near)]


def test_equals_torch(make_context, make_pairs, vectors):
    options = {"margin": 0.3, "offline_margin": 0.1, "weight": 1.5, "weight_scale": 0.3}
    (empty, _) = make_pairs(1)

    def loss(vectors):
        left, right, *mined = (dataclasses.replace(empty, vector=x) for x in vectors)
        pairs = (mined[0], mined[1]), (mined[2], mined[3])
        context = make_context(IDS, "cosine", mined=pairs)
        return LOSSES["quintuplet"].function(left, right, context, **options)

    (value, scalars), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(vectors)
    theirs = [torch.tensor(x, requires_grad=True) for x in vectors]
    expected = aoq(theirs, **options)
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    for found, wanted in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(found, wanted.grad, rtol=1e-4, atol=1e-5)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in vectors]
    own = np.sum(unit[0] * unit[1], axis=1)
    mined = [(0, 3), (2, 1), (2, 3), (4, 5)]
    above = [own > np.sum(unit[i] * unit[j], axis=1) for i, j in mined]
    assert 0 < np.mean(np.all(above, axis=0)) < 1
    np.testing.assert_allclose(scalars["mined_accuracy"], np.mean(np.all(above, axis=0)))
