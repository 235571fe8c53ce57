"""Evaluation crops of the smallest pictures."""

import numpy as np
import pytest

from xmodal.data.pixels.images import EVALUATION_CROPS


@pytest.mark.parametrize("recipe", EVALUATION_CROPS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 1)])
def test_every_recipe_crops_the_smallest_pictures(recipe, shape):
    found = EVALUATION_CROPS[recipe](np.full((*shape, 3), 7, np.uint8), 4, 0.3)
    np.testing.assert_array_equal(found, np.full((4, 4, 3), 7, np.uint8))
