import numpy as np
import pytest

from data_prep.crisscrossed_shapes import simulated_ratings
from data_prep.crisscrossed_shapes.captions import describe
from data_prep.crisscrossed_shapes.rendering import render
from data_prep.crisscrossed_shapes.scene_graph import make_scenes

IMAGES = 300


def rate(seed):
    scenes = make_scenes(1, {"test": IMAGES})["test"]
    captions = [describe(scene, np.random.default_rng((2, n))) for n, scene in enumerate(scenes)]
    images = np.stack(
        [render(scene, np.random.default_rng((3, n))) for n, scene in enumerate(scenes)]
    )
    rated = simulated_ratings.rate_split(scenes, captions, images, np.random.default_rng(seed))
    return {part.method: part for part in rated}


@pytest.fixture(scope="module")
def rated():
    return rate(seed=0)


def test_methods_tasks_and_sizes_are_those_of_the_release(rated):
    assert {method: part.rating for method, part in rated.items()} == {
        "c2c_cocaption": "sts",
        "c2c_isim": "sts",
        "i2i_csim": "sis",
        "c2i_intrasim": "sits",
        "c2i_original": "sits",
    }
    numbers = {method: len(part.pairs) for method, part in rated.items()}
    assert numbers["c2c_cocaption"] == numbers["c2i_original"] == 5 * IMAGES
    assert numbers["c2i_intrasim"] == 4 * IMAGES
    assert 5 * IMAGES < numbers["i2i_csim"] <= 10 * IMAGES
    assert 2.5 * IMAGES <= numbers["c2c_isim"] <= 5 * IMAGES


@pytest.mark.parametrize("rating", ["sts", "sis", "sits"])
def test_ratings_follow_similarity(rating):
    similarities = np.linspace(0, 1, 1001)
    scores = simulated_ratings.rate(similarities, rating, np.random.default_rng(0)).mean(axis=1)
    bins = scores[:1000].reshape(10, 100).mean(axis=1)
    assert (np.diff(bins) > 0).all()
    assert bins[0] < 1.3
    assert bins[-1] > 4.3
