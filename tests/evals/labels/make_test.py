"""Boards of a split small enough to write down every positive."""

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
    return {board.name: board for board in make.make_boards(labels, names)}


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
    board = by_name(labels, [name])[name]
    found = {
        direction: id_pairs(labels, direction, each.positives)
        for direction, each in board.directions.items()
    }
    assert found == EXPECTED[name]


def test_all_boards_in_the_order_of_the_definitions():
    made = by_name(small_labels())
    assert list(made) == [name for name in EXPECTED if name != "pmrp_zeta0"]  # a variant
    assert {name for name, board in made.items() if board.graded} == {"cxc"}
    assert all(board.definition.endswith(".") for board in made.values())
    assert len({board.label_hash for board in made.values()}) == len(made)


def test_directions_and_metrics():
    made = by_name(small_labels(), list(EXPECTED))
    retrieval = ("recall@1", "recall@5", "recall@10", "median_rank")
    assert made["cxc"].directions["t2t"].metrics == retrieval
    assert made["cxc"].directions["t2t"].folds is made["cxc"].directions["t2t"].cap is None
    assert made["eccv"].directions["i2t"].metrics == ("map@r", "r_precision", "recall@1")
    assert made["pmrp"].directions["t2i"].metrics == ("pmrp",)
    assert made["pmrp"].directions["t2i"].cap == made["pmrp_zeta0"].directions["i2t"].cap == 50


def test_positives_beyond_the_split_are_counted():
    directions = by_name(small_labels())["eccv"].directions
    assert directions["i2t"].unreachable.tolist() == [0, 0, 1]  # caption 99 under image 20
    assert directions["t2i"].unreachable is None


def test_folds_of_images_and_of_their_captions():
    directions = by_name(small_labels())["coco1k"].directions
    assert [each.tolist() for each in directions["i2t"].folds] == [[1, 0, 1], [1, 0, 1, 0]]
    assert [each.tolist() for each in directions["t2i"].folds] == [[1, 0, 1, 0], [1, 0, 1]]


def test_a_shortlist_is_the_whole_gallery_of_its_queries():
    labels = small_labels(shortlist=np.array([False, True, True]))
    assert "vinvl_1k" not in by_name(labels)
    board = by_name(labels, ["vinvl_1k"])["vinvl_1k"]
    i2t, t2i = board.directions["i2t"], board.directions["t2i"]
    assert id_pairs(labels, "i2t", i2t.positives) == OWN - {(30, 8)}
    assert id_pairs(labels, "t2i", t2i.positives) == mirrored(OWN - {(30, 8)})
    assert [each.tolist() for each in i2t.folds] == [[1, 0, 0], [1, 0, 0, 0]]
    assert [each.tolist() for each in t2i.folds] == [[1, 0, 0, 0], [1, 0, 0]]


def test_pcme_asks_three_relations_among_items_with_categories():
    labels = small_labels()
    direction = by_name(labels, ["pmrp_pcme"])["pmrp_pcme"].directions["i2t"]
    found = [id_pairs(labels, "i2t", each) for each in direction.positives]
    assert found[0] == found[1] == EXPECTED["pmrp_zeta0"]["i2t"]
    assert found[2] == EXPECTED["pmrp"]["i2t"]
    assert [each.tolist() for each in direction.folds] == [[1, 0, 0], [1, 0, 0, 0]]
    assert direction.cap is None


def test_plausible_matches_of_other_folds_are_none():
    """Images 10 and 20 match, but are compared in different folds."""
    labels = small_labels()
    direction = by_name(labels, ["pmrp_pcme_1k"])["pmrp_pcme_1k"].directions["i2t"]
    for each in direction.positives:
        assert id_pairs(labels, "i2t", each) == EXPECTED["pmrp_zeta0"]["i2t"]
    # Image 30 and its caption have no category: they are in no fold of the others.
    assert [each.tolist() for each in direction.folds] == [[2, 0, 1], [2, 0, 1, 0]]


def test_plausible_matches_against_pairwise_distances():
    rng = np.random.default_rng(0)
    categories = (rng.random((41, 80)) < 0.03).astype(np.uint8)
    labels = small_labels(
        image_ids=np.arange(41),
        caption_ids=np.arange(100, 141),
        caption_image_ids=np.arange(41),
        ratings={},
        lists={},
        categories=categories,
        caption_categories=categories,
        folds=None,
    )
    asked = categories.any(1)
    distance = (categories[:, None] != categories[None]).sum(2)
    assert 0 < (~asked).sum() < 20
    for name, zeta in (("pmrp", 2), ("pmrp_zeta0", 0)):
        positives = by_name(labels, [name])[name].directions["i2t"].positives
        expected = (distance <= zeta) & asked[:, None] & asked[None, :]
        found = positives.contains(np.arange(41)[:, None], np.arange(41)[None, :])
        np.testing.assert_array_equal(found, expected)


def test_ratings_as_they_are():
    graded = by_name(small_labels())["cxc"].graded
    assert list(graded) == ["sts", "sis", "sits"]
    assert graded["sits"].modalities == ("text", "image")
    assert graded["sits"].left.tolist() == [1, 1, 3, 2]
    assert graded["sits"].right.tolist() == [1, 0, 1, 0]
    assert graded["sits"].pairs_of_query.lengths.tolist() == [2, 2]  # by image: 30, 10
    assert graded["sis"].pairs_of_query.lengths.tolist() == [1, 2, 3]  # either column


def test_flickr8k_ratings_correlate_but_do_not_merge():
    pairs = rated((5, 30, 1.0), (6, 10, 4.0), (7, 10, 2.0))
    labels = small_labels(name="flickr8k", ratings={"expert": pairs, "crowd": pairs})
    (board,) = make.make_boards(labels)
    assert board.name == "flickr8k"
    assert set(board.graded) == {"expert", "crowd"}
    # With five captions per image, the board gets a metric of the whole list.
    assert "map@r" in board.directions["i2t"].metrics
    assert board.graded["expert"].pairs_of_query.lengths.tolist() == [1, 2]
    assert id_pairs(labels, "t2i", board.directions["t2i"].positives) == mirrored(OWN)
    assert board.directions["t2t"].positives.lengths.tolist() == [0, 1, 0, 1]


def test_boards_whose_labels_are_not_there_are_left_out():
    bare = small_labels(ratings={}, lists={}, categories=None, caption_categories=None, folds=None)
    assert list(by_name(bare)) == ["coco5k"]
    assert list(by_name(dataclasses.replace(bare, name="other"))) == ["other"]
    assert list(by_name(small_labels(lists={}, folds=None))) == [
        "coco5k",
        "cxc",
        "cxc_sits_only",
        "pmrp",
    ]


def test_why_boards_were_left_out():
    labels = small_labels()
    assert make.explain_left_out(labels, make.make_boards(labels)) == {}  # variants are not
    bare = small_labels(ratings={}, lists={}, categories=None, caption_categories=None, folds=None)
    rated_by = "'sts' (sts_val.csv or sts_test.csv)"
    found = make.explain_left_out(bare, make.make_boards(bare))
    assert list(found.values()) == [[name] for name in list(EXPECTED)[1:-1]]
    assert f"coco_captions lacks the labels {rated_by} and 'sits' (" in list(found)[1]
    low = small_labels(ratings={"sits": rated((5, 10, 2.9))}, lists={}, partial="3 of 9 images")
    assert make.explain_left_out(low, make.make_boards(low)) == {
        "its folds need the whole split, and this is 3 of 9 images": ["coco1k"],
        "coco_captions lacks the labels 'sts' (sts_val.csv or sts_test.csv) and 'sis' (sis_val.csv "
        "or sis_test.csv)": ["cxc"],
        "neither positives nor ratings are left": ["cxc_sits_only"],
        "coco_captions lacks the labels 'eccv' (eccv_image_to_caption.json and "
        "eccv_caption_to_image.json)": ["eccv"],
    }


def test_the_lists_of_cxc_and_the_ratings_say_the_same():
    listed = by_name(small_labels())["cxc_sits_only"]
    from_ratings = by_name(small_labels(lists={}))["cxc_sits_only"]
    assert listed.label_hash == from_ratings.label_hash
    assert list(by_name(small_labels(ratings={}), ["cxc_sits_only"])) == ["cxc_sits_only"]


def test_exactly_the_boards_that_are_named():
    assert list(by_name(small_labels(), ["eccv", "coco5k", "eccv"])) == ["eccv", "coco5k"]


@pytest.mark.parametrize(
    ("changes", "name", "message"),
    [
        ({}, "coco", r"Unknown board.*'coco'.*known: coco5k, coco1k, cxc, "),
        ({"ratings": {}}, "cxc", r"Board cxc .*'sts' \(sts_val\.csv or sts_test\.csv\) and 'sits'"),
        ({"lists": {}}, "eccv", r"Board eccv .*'eccv' \(eccv_image_to_caption\.json and "),
        ({"lists": {"eccv": {"i2t": flat((10, 5))}}}, "eccv", r"eccv_caption_to_image\.json"),
        ({"caption_categories": None}, "pmrp", r"Board pmrp .*instances_val2014\.json"),
        ({"folds": None}, "coco1k", r"Board coco1k .*coco_test_ids\.npy"),
        ({}, "vinvl_1k", r"Board vinvl_1k .*test_img_keys_1k\.tsv"),
        ({"partial": "3 of 9 images"}, "vinvl_1k", "its list needs the whole split"),
        ({"partial": "3 of 9 images"}, "coco1k", "need the whole split, and this is 3 of 9 images"),
    ],
)
def test_boards_that_cannot_be_made(changes, name, message):
    with pytest.raises(ValueError, match=message):
        make.make_boards(small_labels(**changes), ["coco5k", name])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_ids": np.array([30, 10, 10])}, "image id 10 occurs twice"),
        ({"image_ids": np.array([30, 20, 40])}, "2 labels name images .* image id 10"),
        ({"caption_ids": np.zeros(0, int)}, "no caption"),
        ({"lists": {"eccv": {"i2t": flat((11, 5)), "t2i": flat((7, 30))}}}, "image id 11"),
        (
            {"lists": {"eccv": {"i2t": flat((10, 97), (10, 98), (20, 99)), "t2i": flat((7, 30))}}},
            "3 labels name captions .* caption id 97",
        ),
    ],
)
def test_labels_of_another_split(changes, message):
    with pytest.raises(ValueError, match=message):
        make.make_boards(small_labels(**changes))


def reordered(labels):
    """The same labels, galleries and label lists in a different order."""
    images, captions = np.array([2, 0, 1]), np.array([3, 1, 0, 2])
    return dataclasses.replace(
        labels,
        image_ids=labels.image_ids[images],
        categories=labels.categories[images],
        folds=labels.folds[images],
        caption_ids=labels.caption_ids[captions],
        caption_image_ids=labels.caption_image_ids[captions],
        caption_categories=labels.caption_categories[captions],
        ratings={
            rating: {key: column[::-1] for key, column in pairs.items()}
            for rating, pairs in labels.ratings.items()
        },
        lists={
            name: {direction: (q[::-1], n[::-1]) for direction, (q, n) in directions.items()}
            for name, directions in labels.lists.items()
        },
    )


def hashes(labels):
    return {name: board.label_hash for name, board in by_name(labels).items()}


def test_hashes_do_not_depend_on_any_order():
    assert hashes(reordered(small_labels())) == hashes(small_labels())


SITS = [(5, 10, 2.9), (5, 30, 3.0), (6, 10, 4.0), (7, 30, 0.5)]


@pytest.mark.parametrize(
    ("changes", "affected"),
    [
        ({"ratings": small_labels().ratings | {"sits": rated(*SITS[:3], (7, 30, 0.6))}}, {"cxc"}),
        ({"ratings": small_labels().ratings | {"sits": rated(*SITS[:3])}}, {"cxc"}),
        (
            {"lists": small_labels().lists | {"cxc": {"i2t": flat((30, 5)), "t2i": flat((5, 30))}}},
            {"cxc_sits_only"},
        ),
        (
            {"lists": {"eccv": {"i2t": flat((10, 5), (10, 8), (20, 98)), "t2i": flat((7, 30))}}},
            {"eccv"},
        ),
        ({"folds": np.array([0, 0, 1], np.int32)}, {"coco1k"}),
        (
            {
                "categories": np.eye(3, 4, dtype=np.uint8),
                "caption_categories": np.eye(4, dtype=np.uint8),
            },
            {"pmrp"},
        ),
        ({"caption_image_ids": np.array([30, 10, 20, 20])}, {"coco5k", "coco1k", "cxc"}),
        (
            {
                "caption_ids": np.array([8, 5, 7, 6, 4]),
                "caption_image_ids": np.array([30, 10, 20, 10, 30]),
                "caption_categories": np.zeros((5, 4), np.uint8),
            },
            set(hashes(small_labels())),
        ),
    ],
)
def test_hashes_change_with_every_label(changes, affected):
    before, after = hashes(small_labels()), hashes(small_labels(**changes))
    assert {name for name in after if before[name] != after[name]} == affected & set(after)
    assert affected & set(after)


@pytest.mark.parametrize("change", [{"cap": 49}, {"cap": None}, {"labeled_gallery": True}])
def test_hashes_of_plausible_matches_change_with_their_rule(monkeypatch, change):
    before = hashes(small_labels())["pmrp"]
    known = make.definitions_of("coco_captions")
    known["pmrp"] = dataclasses.replace(known["pmrp"], **change)
    monkeypatch.setattr(make, "definitions_of", lambda name: known)
    assert hashes(small_labels())["pmrp"] != before


def test_ratings_of_own_pictures_are_compared():
    (board,) = by_name(small_labels(name="captioned_images")).values()
    assert list(board.graded) == ["sts", "sis", "sits"]
    (board,) = by_name(small_labels(name="captioned_images", ratings={})).values()
    assert not board.graded
