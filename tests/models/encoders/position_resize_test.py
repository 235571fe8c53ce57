"""Resampled positions against torch's interpolation."""

import numpy as np
import pytest

from xmodal.models.encoders.position_resize import resize_grid_positions, resize_text_positions

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("old", "new"), [(3, 5), (7, 4), (14, 24)])
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("bicubic", {"mode": "bicubic", "antialias": True, "align_corners": False}),
        ("torch_bicubic", {"mode": "bicubic", "align_corners": False}),
        ("corners", {"mode": "bilinear", "align_corners": True}),
    ],
)
@pytest.mark.parametrize("class_tokens", [0, 1])
def test_grids_equal_torch(old, new, rule, options, class_tokens):
    torch = pytest.importorskip("torch")
    positions = RNG.normal(size=(class_tokens + old**2, 6)).astype(np.float32)
    found = resize_grid_positions(positions, class_tokens + new**2, rule, class_tokens)
    grid = torch.tensor(positions[class_tokens:]).reshape(1, old, old, 6).permute(0, 3, 1, 2)
    wanted = torch.nn.functional.interpolate(grid, (new, new), **options)
    wanted = wanted.permute(0, 2, 3, 1).reshape(new**2, 6)
    np.testing.assert_allclose(found[class_tokens:], wanted, atol=1e-5)
    np.testing.assert_array_equal(found[:class_tokens], positions[:class_tokens])


def test_texts_equal_torch():
    torch = pytest.importorskip("torch")
    positions = RNG.normal(size=(12, 5)).astype(np.float32)
    for count in (7, 30):
        found = resize_text_positions(positions, count, "linear")
        wanted = torch.nn.functional.interpolate(
            torch.tensor(positions.T)[None], count, mode="linear", align_corners=False
        )
        np.testing.assert_allclose(found, wanted[0].T, atol=1e-5)
