"""Benchmarks of a split small enough to write down every positive."""

import dataclasses

import numpy as np
import pytest

from xmodal.evals.labels import make
from xmodal.evals.labels.types import Labels

# Image 30 has no matches; captions 5 and 6 describe image 10.
OWN = {(10, 5), (10, 6), (20, 7), (30, 8)}


def rated(*rows):
    left, right, scores = zip(*rows, strict=True)
    return {
        "left_ids": np.array(left, np.int32),
        "right_ids": np.array(right, np.int32),
        "scores": np.array(scores, np.float32),
    }


def flat(*pairs):
    return tuple(np.array(pairs, np.int64).T)


def small_labels(**changes):
    fields = {
        "name": "coco_captions",
        "split": "test",
        "image_ids": np.array([30, 10, 20]),
        "caption_ids": np.array([8, 5, 7, 6]),
        "caption_image_ids": np.array([30, 10, 20, 10]),
        "ratings": {
            "sts": rated((5, 7, 3.0), (5, 6, 1.0), (8, 8, 5.0)),
            "sis": rated((10, 20, 2.4), (20, 10, 2.5), (20, 30, 2.4)),
            "sits": rated((5, 10, 2.9), (5, 30, 3.0), (6, 10, 4.0), (7, 30, 0.5)),
        },
        "lists": {
            "eccv": {"i2t": flat((10, 5), (10, 8), (20, 99)), "t2i": flat((7, 30))},
            "cxc": {"i2t": flat((30, 5), (10, 6)), "t2i": flat((6, 10), (5, 30))},
        },
        # Image 30 shows no objects.
        "categories": np.array([[0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], np.uint8),
        "caption_categories": np.array(
            [[0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0]], np.uint8
        ),
        "folds": np.array([1, 0, 1], np.int32),
    }
    return Labels(**(fields | changes))


def by_name(labels, names=None):
    return {benchmark.name: benchmark for benchmark in make.make_benchmarks(labels, names)}


def id_pairs(labels, direction, positives):
    """All (query id, gallery id) that are positives according to `contains`."""
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    query, gallery = (ids[kind] for kind in make.DIRECTIONS[direction])
    found = positives.contains(np.arange(len(query))[:, None], np.arange(len(gallery))[None, :])
    assert found.sum(1).tolist() == positives.lengths.tolist()
    return {(int(query[q]), int(gallery[n])) for q, n in np.argwhere(found)}


def mirrored(pairs):
    return {(b, a) for a, b in pairs}


EXPECTED = {
    "coco5k": {"i2t": OWN, "t2i": mirrored(OWN), "t2t": {(5, 6), (6, 5)}},
    "coco1k": {"i2t": OWN, "t2i": mirrored(OWN)},
    "cxc": {
        "i2t": OWN | {(30, 5)},  # (10, 5) stays, although it was rated below 3
        "t2i": mirrored(OWN | {(30, 5)}),
        "t2t": {(5, 6), (6, 5), (5, 7), (7, 5)},  # (8, 8) is not a positive of itself
        "i2i": {(10, 20), (20, 10)},  # one of the two rows suffices
    },
    "cxc_sits_only": {"i2t": {(30, 5), (10, 6)}, "t2i": {(5, 30), (6, 10)}},
    "eccv": {"i2t": {(10, 5), (10, 8)}, "t2i": {(7, 30)}},
    "pmrp": {
        "i2t": {(10, 5), (10, 6), (10, 7), (20, 5), (20, 6), (20, 7)},
        "t2i": {(5, 10), (6, 10), (7, 10), (5, 20), (6, 20), (7, 20)},
    },
    "pmrp_zeta0": {"i2t": {(10, 5), (10, 6), (20, 7)}, "t2i": {(5, 10), (6, 10), (7, 20)}},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_positives(name):
    labels = small_labels()
    benchmark = by_name(labels, [name])[name]
    found = {
        direction: id_pairs(labels, direction, each.positives)
        for direction, each in benchmark.directions.items()
    }
    assert found == EXPECTED[name]


def test_why_benchmarks_were_left_out():
    bare = small_labels(ratings={}, lists={}, categories=None, caption_categories=None, folds=None)
    found = make.explain_left_out(bare, make.make_benchmarks(bare))
    assert list(found.values()) == [[name] for name in list(EXPECTED)[1:-1]]
    assert "coco_captions lacks the labels 'sts' (sts_val.csv or sts_test.csv)" in list(found)[1]


def test_labels_of_another_split():
    listed = {"eccv": {"i2t": flat((10, 97), (10, 98), (20, 99)), "t2i": flat((7, 30))}}
    with pytest.raises(ValueError, match=r"3 labels name captions .* caption id 97"):
        make.make_benchmarks(small_labels(lists=listed))


def reordered(labels):
    """The same labels, galleries and label lists in a different order."""
    images, captions = np.array([2, 0, 1]), np.array([3, 1, 0, 2])
    of_images = ("image_ids", "categories", "folds")
    of_captions = ("caption_ids", "caption_image_ids", "caption_categories")
    return dataclasses.replace(
        labels,
        **{name: getattr(labels, name)[images] for name in of_images},
        **{name: getattr(labels, name)[captions] for name in of_captions},
        ratings={
            rating: {key: column[::-1] for key, column in pairs.items()}
            for rating, pairs in labels.ratings.items()
        },
        lists={
            name: {direction: (q[::-1], n[::-1]) for direction, (q, n) in directions.items()}
            for name, directions in labels.lists.items()
        },
    )


def test_hashes_do_not_depend_on_any_order():
    both = (by_name(labels).values() for labels in (reordered(small_labels()), small_labels()))
    found, expected = ({each.name: each.label_hash for each in made} for made in both)
    assert found == expected
