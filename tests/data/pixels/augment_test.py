"""Augmentation windows against those drawn by TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from xmodal.core.errors import UserError
from xmodal.data.pixels.augment import AugmentConfig, draw, erase

COUNT = 2000


def _ours(height, width, config):
    return np.array([draw(np.array([3, k]), height, width, config)[0] for k in range(COUNT)])


@tf.function
def _tensorflow(height, width, area, aspect):
    def one(number):
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            [height, width, 3],
            tf.zeros([1, 0, 4]),
            seed=[7, number],
            min_object_covered=0.1,
            aspect_ratio_range=aspect,
            area_range=area,
            max_attempts=100,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.concat([begin[:2], extent[:2]], axis=0)

    return tf.map_fn(one, tf.range(COUNT), fn_output_signature=tf.int32)


@pytest.mark.parametrize(
    ("height", "width", "area", "aspect"),
    [
        (375, 500, (0.67, 1.0), (0.75, 1.33)),
        (60, 300, (0.2, 1.0), (0.5, 2.0)),
        (50, 70, (0.02, 0.3), (0.75, 1.33)),
    ],
)
def test_windows_are_spread_as_those_of_tensorflow(height, width, area, aspect):
    ours = _ours(height, width, AugmentConfig(area=area, aspect=aspect))
    theirs = _tensorflow(height, width, area, aspect).numpy()
    for windows in (ours, theirs):
        assert (windows >= 0).all()
        assert (windows[:, :2] + windows[:, 2:] <= [height, width]).all()
    for name, column in {"top": 0, "left": 1, "height": 2, "width": 3}.items():
        test = stats.ks_2samp(ours[:, column], theirs[:, column])
        assert test.statistic < 0.055, f"{name}: {test}"  # p = 0.005 of 2,000 continuous draws
    for pair in [(0, 2), (1, 3), (2, 3)]:
        both = [np.corrcoef(windows[:, pair].T)[0, 1] for windows in (ours, theirs)]
        assert abs(both[0] - both[1]) < 0.1


@pytest.mark.parametrize(("height", "width"), [(480, 640), (100, 1000)])
def test_windows_are_spread_as_those_of_torchvision(height, width):
    """`RandomResizedCrop.get_params`, spelled out."""
    config = AugmentConfig(crop="torchvision", area=(0.08, 1.0), aspect=(0.75, 4 / 3), min_area=0.0)
    ours, theirs, rng = _ours(height, width, config), [], np.random.default_rng(5)
    for _ in range(COUNT):
        for _ in range(10):
            area = height * width * rng.uniform(0.08, 1.0)
            ratio = np.exp(rng.uniform(np.log(0.75), np.log(4 / 3)))
            columns, rows = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
            if 0 < columns <= width and 0 < rows <= height:
                top, left = rng.integers(height - rows + 1), rng.integers(width - columns + 1)
                theirs.append((top, left, rows, columns))
                break
        else:  # the central crop
            columns = min(width, round(height * 4 / 3))
            theirs.append((0, (width - columns) // 2, height, columns))
    for column in range(4):
        assert stats.ks_2samp(ours[:, column], np.array(theirs)[:, column]).statistic < 0.055


def test_both_sides_of_a_crop_may_keep_the_same_fraction():
    """VSE-infinity: u from U(0.6, 1), with the window anywhere."""
    config = AugmentConfig(sides=(0.6, 1.0), area=(0.1, 0.2))
    windows = _ours(200, 300, config)
    shares = windows[:, 2:] / [200, 300]
    assert np.abs(shares[:, 0] - shares[:, 1]).max() <= 1 / 200
    assert stats.kstest(shares[:, 1], stats.uniform(0.6, 0.4).cdf).statistic < 0.04
    for first, extent, side in ((0, 2, 200), (1, 3, 300)):
        room = side - windows[:, extent]
        assert (windows[:, first] <= room).all()
        places = windows[room > 5, first] / room[room > 5]
        assert stats.kstest(places, stats.uniform(0, 1).cdf).statistic < 0.08
    with pytest.raises(UserError, match="augment.sides starts with its upper end"):
        AugmentConfig(sides=(1.0, 0.6))


def test_erased_rectangles_are_distributed_as_in_the_paper():
    """A slow implementation of the description: uniform area and log aspect ratio."""
    size, shares, aspects, places, erased = 64, [], [], [], 0
    for number in range(COUNT):
        pixels = np.full((size, size, 3), 7, np.uint8)
        erase(pixels, np.array([3, number]), 0.2)
        where = np.argwhere((pixels != 7).any(-1))
        if not len(where):
            continue
        erased += 1
        (top, left), (bottom, right) = where.min(0), where.max(0) + 1
        inside = pixels[top:bottom, left:right]
        assert (inside == [124, 116, 104]).all()
        assert len(where) == (bottom - top) * (right - left)
        shares.append(len(where) / size**2)
        aspects.append(np.log((bottom - top) / (right - left)))
        places.append(top / (size - (bottom - top)))
    assert stats.binomtest(erased, COUNT, 0.2).pvalue > 1e-3
    # Rounding the sides changes areas and ratios slightly; tall and wide rectangles may not fit.
    assert 0.015 < min(shares) < 0.03 < 0.31 < max(shares) < 0.35
    assert np.abs(aspects).max() < -np.log(0.3) + 0.15
    assert stats.kstest(shares, stats.uniform(0.02, 1 / 3 - 0.02).cdf).pvalue > 1e-3
    assert stats.kstest(places, stats.uniform(0, 1).cdf).pvalue > 1e-4
    assert abs(np.mean(aspects)) < 0.12
