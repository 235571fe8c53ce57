"""How pictures become inputs, as the papers and their code have it."""

import pytest

from tests.configs.configs_test import get_config
from xmodal import data

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
