"""Pictures as rows of patches have the sizes and the pixels of dandelin/ViLT."""

import numpy as np
import PIL.Image
import pytest

from xmodal.data.pixels.images import ImageConfig, cut_into_patches, most_patches, resized_shape


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        ((480, 640), (384, 512)),
        ((640, 480), (512, 384)),
        ((427, 640), (384, 576)),
        ((213, 640), (192, 608)),
        ((500, 500), (384, 384)),
        ((3, 900), (32, 608)),
    ],
)
def test_sizes_are_published(picture, expected):
    assert resized_shape(*picture, 384, 32) == expected


def test_patches_follow_row_by_row():
    picture = np.random.default_rng(0).integers(0, 256, (40, 55, 3), np.uint8)
    found = cut_into_patches(picture, 32, 8)
    assert found.shape == ImageConfig(size=32, patch=8).shape == (1 + most_patches(32, 8), 192)
    rows, columns = found[0, :2]
    assert (rows, columns) == (4, 5)  # 32 x 44 pixels, of which 40 columns are left.
    resized = np.asarray(PIL.Image.fromarray(picture).resize((40, 32), PIL.Image.BICUBIC))
    for row in range(rows):
        for column in range(columns):
            patch = resized[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
            np.testing.assert_array_equal(found[1 + row * columns + column], patch.ravel())
    assert not found[1 + rows * columns :].any()
