"""How pictures become inputs, as the papers and their code have it."""

import numpy as np
import pytest

from tests.configs.configs_test import get_config
from xmodal import data
from xmodal.data.pixels.images import EVALUATION_CROPS

CROP = {"area": (0.08, 1.0), "aspect": (0.75, 4 / 3), "flip": True, "color": False, "min_area": 0.0}
CXC = {"area": (0.67, 1.0), "aspect": (0.75, 1.33), "flip": True, "color": True, "min_area": 0.1}
SQUARE = {"square": True, "flip": False, "color": False}
SIDES = {"sides": (0.6, 1.0), "flip": True, "color": False}
# Configs; side of the input, recipe and crop of the evaluation; augmentation.
RECIPES = [
    # Resize(256), CenterCrop(224).
    (["vsepp", "vse0", "order", "pvse"], (224, "torchvision", 0.875), CROP | {"erase": 0.0}),
    (["pcme"], (224, "torchvision", 0.875), CROP | {"erase": 0.2}),
    # Resize(224), CenterCrop(224).
    (["cmcm_clue", "cmcm_cite"], (224, "torchvision", 1.0), SQUARE),
    # The whole picture, squeezed.
    (["vse_infinity:grids", "vse_infinity:wsl"], (512, "cxc", 1.0), SIDES),
    # 0.875 of each side, squeezed.
    (["cc_pretrain", "cxc_image_text", "cxc_multitask"], (380, "cxc", 0.875), CXC),
    # The shorter side to 300, and the central square, of which features are stored.
    (["vete"], (300, "torchvision", 1.0), None),
]


def images_of(name):
    return data.parse(get_config(*name.split(":")).data).image


@pytest.mark.parametrize(
    ("name", "evaluation", "augmentation"),
    [(name, *recipe) for names, *recipe in RECIPES for name in names],
)
def test_pictures_are_prepared_as_published(name, evaluation, augmentation):
    found = images_of(name)
    assert (found.size, found.eval_transform, found.eval_crop) == evaluation
    if augmentation is None:
        assert found.augment is None
    else:
        assert {key: getattr(found.augment, key) for key in augmentation} == augmentation


def test_vete_keeps_the_aspect_ratio():
    """A circle in a wide picture stays one."""
    rows, columns = np.mgrid[:300, :600]
    inside = (rows - 150) ** 2 + (columns - 300) ** 2 < 100**2
    picture = np.repeat(np.uint8(255 * inside)[..., None], 3, axis=-1)
    config = images_of("vete")
    found = EVALUATION_CROPS[config.eval_transform](picture, config.size, config.eval_crop)
    white = found[..., 0] > 127
    height, width = white.any(1).sum(), white.any(0).sum()
    assert found.shape == (300, 300, 3)
    assert abs(int(height) - int(width)) <= 1
