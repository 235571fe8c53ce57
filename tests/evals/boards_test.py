"""Boards from the released CxC test labels, and the counts the paper and its files imply."""

import csv
import gzip
import pathlib
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from xmodal.evals import boards, correlation

DATA = pathlib.Path("../shared/data")


def read_ratings(task, left_column, right_column):
    with open(DATA / f"cxc/{task}_test.csv", newline="") as file:
        rows = list(csv.DictReader(file))

    def number(text):
        return int(text.removesuffix(".jpg").replace("_", ":").rsplit(":", 1)[1])

    return {
        "left_ids": np.array([number(row[left_column]) for row in rows], np.int32),
        "right_ids": np.array([number(row[right_column]) for row in rows], np.int32),
        "scores": np.array([row["agg_score"] for row in rows], np.float32),
    }


@pytest.fixture(scope="module")
def cxc():
    if not (DATA / "cxc/sts_test.csv").exists():
        pytest.skip("the CxC label files are not in ../shared/data/cxc")
    with gzip.open(DATA / "coco/karpathy_5k_caption_image.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
    caption_image_ids = np.array([row["image_id"] for row in rows], np.int32)
    labels = SimpleNamespace(
        name="coco_captions",
        caption_ids=np.array([row["caption_id"] for row in rows], np.int32),
        caption_image_ids=caption_image_ids,
        image_ids=np.unique(caption_image_ids)[::-1],
        ratings={
            "sts": read_ratings("sts", "caption1", "caption2"),
            "sis": read_ratings("sis", "image1", "image2"),
            "sits": read_ratings("sits", "caption", "image"),
        },
    )
    return {board.name: board for board in boards.make_boards(labels)}


def test_own_labels(cxc):
    positives = cxc["coco"].positives
    assert set(positives) == {"i2t", "t2i", "t2t"}
    assert set(positives["i2t"].lengths) == {5}
    assert set(positives["t2i"].lengths) == {1}
    assert set(positives["t2t"].lengths) == {4}
    assert cxc["coco"].graded == {}


def test_merged_labels(cxc):
    positives = cxc["cxc"].positives
    assert positives["t2i"].lengths.sum() == positives["i2t"].lengths.sum() == 35_614
    histogram = [0, 16_995, 5_948, 1_599, 382, 62, 11, 2, 1]
    assert np.bincount(positives["t2i"].lengths).tolist() == histogram
    assert positives["t2t"].lengths.sum() == 101_166
    assert (positives["t2t"].lengths > 4).sum() == 1_077
    assert (positives["i2i"].lengths > 0).sum() == 4_791
    assert positives["i2i"].lengths.sum() == 40_492


def test_intermodal_labels_mirror_each_other(cxc):
    positives = cxc["cxc"].positives
    pairs = {
        task: set(
            zip(
                np.repeat(np.arange(len(rows.lengths)), rows.lengths).tolist(),
                rows.values.tolist(),
                strict=True,
            )
        )
        for task, rows in positives.items()
    }
    assert {(j, i) for i, j in pairs["i2t"]} == pairs["t2i"]
    for task in ("t2t", "i2i"):
        assert {(j, i) for i, j in pairs[task]} == pairs[task]
        assert not any(i == j for i, j in pairs[task])


@pytest.mark.parametrize(
    ("task", "pairs", "pairs_per_sample"),
    [("sts", 44_045, 12_500), ("sis", 46_719, 2_500), ("sits", 44_833, 2_500)],
)
def test_bootstrap_queries(cxc, task, pairs, pairs_per_sample):
    graded = cxc["cxc"].graded[task]
    assert len(graded.scores) == pairs
    assert correlation.draw_pairs(graded.pairs_of_query, samples=1, seed=0).shape == (
        1,
        pairs_per_sample,
    )


def test_bootstrap_deviation_is_the_published_one(cxc):
    """At rho 62 the paper prints 1.3 for SITS; queries by caption would give 0.44."""
    graded = cxc["cxc"].graded["sits"]
    order = scipy.stats.rankdata(graded.scores) / (len(graded.scores) + 1)
    noise = np.random.default_rng(0).standard_normal(len(order))
    model = scipy.stats.norm.ppf(order) + 1.15 * noise
    drawn = correlation.draw_pairs(graded.pairs_of_query, samples=300, seed=0)
    values = 100 * correlation.compute_spearman(model, graded.scores, drawn)
    assert 60 < values.mean() < 64
    assert 1.15 < values.std() < 1.4


def small_labels(**changes):
    fields = {
        "name": "flickr8k",
        "image_ids": np.array([3, 1]),
        "caption_ids": np.array([5, 6, 7]),
        "caption_image_ids": np.array([1, 1, 3]),
        "ratings": {
            task: {
                "left_ids": np.array([5, 6, 7]),
                "right_ids": np.array([3, 1, 1]),
                "scores": np.array([1.0, 4.0, 2.0]),
            }
            for task in ("expert", "crowd")
        },
    }
    return SimpleNamespace(**(fields | changes))


def test_flickr8k_ratings_correlate_but_do_not_merge():
    (board,) = boards.make_boards(small_labels())
    assert board.name == "flickr8k"
    assert set(board.graded) == {"expert", "crowd"}
    assert board.graded["expert"].pairs_of_query.lengths.tolist() == [1, 2]  # images, by position
    assert board.positives["t2i"].values.tolist() == [1, 1, 0]
    assert board.positives["t2t"].lengths.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_ids": np.array([3, 3])}, "image id 3 occurs twice"),
        ({"image_ids": np.array([3, 4])}, "2 labels name images .* image id 1"),
        ({"caption_ids": np.zeros(0, int)}, "no caption"),
    ],
)
def test_bad_labels(changes, message):
    with pytest.raises(ValueError, match=message):
        boards.make_boards(small_labels(**changes))
