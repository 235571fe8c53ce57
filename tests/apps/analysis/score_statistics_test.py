"""Statistics of rated pairs, against plain loops."""

import math
import statistics as plain

import numpy as np
import pytest

from xmodal.apps.analysis.ratings import score_statistics
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs


def make_pairs(rating, rows, raters=None):
    """Rows are (left id, right id, score, method)."""
    left, right, scores, methods = zip(*rows, strict=True)
    return RatedPairs(
        rating,
        np.array(left),
        np.array(right),
        np.array(methods),
        np.array(scores, np.float32),
        None if raters is None else np.array(raters, np.float32),
    )


STS = [(1, 2, 3.0, "a"), (2, 3, 2.5, "a"), (3, 1, 4.0, "b"), (1, 3, 3.5, "b"), (5, 6, 0.5, "a")]


def test_raters_spread_as_sample_deviation():
    raters = [[1, 2, 4], [3, np.nan, 5], [2, np.nan, np.nan], [np.nan] * 3, [0, 0, 0]]
    pairs = make_pairs("sts", STS, raters)
    found = score_statistics.rater_deviations(pairs)
    for row, deviation in zip(raters, found, strict=True):
        known = [score for score in row if not math.isnan(score)]
        if len(known) < 2:
            assert math.isnan(deviation)
        else:
            assert deviation == pytest.approx(plain.stdev(known))
    summary = score_statistics.summarize({"sts": pairs}, {})[0]
    assert summary.rater_deviation == pytest.approx(np.nanmean(found))
    assert score_statistics.rater_deviations(make_pairs("sts", STS, [[1]] * 5)) is None


def test_positives_of_captions_and_images_are_counted_apart():
    counts = score_statistics.positives_per_item(make_pairs("sits", STS), 3.0)
    captions = [2, 0, 1, 0]  # 1, 2, 3, 5
    images = [1, 1, 1, 0]  # 1, 2, 3, 6
    assert {kind: row.tolist() for kind, row in counts.items()} == {
        "caption": captions,
        "image": images,
    }


def test_cosines_of_word_counts():
    texts = [["a dog", "a dog"], ["a dog", "two cats"], ["a dog", "a cat"], ["a", "!"]]
    found = score_statistics.word_cosines(np.array(texts, object))
    np.testing.assert_allclose(found, [1, 0, 0.5, np.nan], rtol=1e-6)
