"""The released label files of MS-COCO: counts, hashes, and parts of them."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import scipy.stats

from xmodal.evals.labels import annotations
from xmodal.evals.labels import make as boards
from xmodal.evals.labels.definitions import definitions_of
from xmodal.evals.reports.metrics import compute_spearman, draw_pairs
from xmodal.evals.reports.published import PUBLISHED_LABELS


@pytest.fixture(scope="module")
def coco_test(real_data):
    return annotations.read_annotations(real_data, "test")


@pytest.fixture(scope="module")
def real(coco_test):
    # The list of VinVL is not among the files.
    names = [name for name in definitions_of(coco_test.name) if name != "vinvl_1k"]
    return {board.name: board for board in boards.make_boards(coco_test, names)}


def totals(direction):
    """Numbers of queries, and of their positives."""
    return int((direction.positives.lengths > 0).sum()), int(direction.positives.lengths.sum())


@pytest.mark.slow
def test_galleries_are_in_karpathy_order(coco_test, real_data):
    released = np.load(real_data / "eccv_caption/coco_test_ids.npy")
    np.testing.assert_array_equal(coco_test.caption_ids, released)
    assert coco_test.image_ids[:2].tolist() == [391895, 60623]
    np.testing.assert_array_equal(coco_test.caption_image_ids[::5], coco_test.image_ids)


@pytest.mark.slow
def test_all_boards_of_the_test_split(coco_test, real):
    main = ["coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"]
    assert list(real) == [*main, "pmrp_zeta0", "pmrp_pcme", "pmrp_pcme_1k"]
    # Variants of PMRP are computed only if named.
    assert [board.name for board in boards.make_boards(coco_test)] == main


@pytest.mark.parametrize(
    ("board", "direction", "queries", "positives"),
    [
        ("coco5k", "i2t", 5_000, 25_000),
        ("coco5k", "t2i", 25_000, 25_000),
        ("coco5k", "t2t", 25_000, 100_000),
        ("cxc", "i2t", 5_000, 35_614),
        ("cxc", "t2i", 25_000, 35_614),
        ("cxc", "t2t", 25_000, 101_166),
        ("cxc", "i2i", 4_791, 40_492),
        ("cxc_sits_only", "i2t", 5_000, 35_585),
        ("cxc_sits_only", "t2i", 24_972, 35_585),
        ("eccv", "i2t", 1_261, 22_548),  # and the two outside the split
        ("eccv", "t2i", 1_332, 11_279),
        # Image pairs in both orders, including an image with itself, times five captions.
        ("pmrp", "i2t", 4_952, 5 * 2_363_524),
        ("pmrp", "t2i", 24_760, 5 * 2_363_524),
        ("pmrp_zeta0", "i2t", 4_952, 5 * 93_030),
    ],
)
def test_published_counts(real, board, direction, queries, positives):
    assert totals(real[board].directions[direction]) == (queries, positives)


def renumbered(labels):
    """The same labels with image ids that count from 0."""
    at = np.argsort(labels.image_ids)
    rank = dict(zip(labels.image_ids[at].tolist(), range(len(at)), strict=True))
    own = np.array([rank[image] for image in labels.caption_image_ids.tolist()])
    images = np.array([rank[image] for image in labels.image_ids.tolist()])
    return dataclasses.replace(
        labels, image_ids=images, caption_image_ids=own, ratings={}, lists={}
    )


def with_another_rating(labels):
    rated = dict(labels.ratings["sis"])
    rated["scores"] = rated["scores"].copy()
    rated["scores"][0] += 0.01
    return dataclasses.replace(labels, ratings=labels.ratings | {"sis": rated})


def in_other_folds(labels):
    return dataclasses.replace(labels, folds=np.roll(labels.folds, 1))


def without_an_image(labels):
    return annotations.restrict(labels, labels.image_ids[1:], labels.caption_ids[5:])


@pytest.mark.parametrize(
    ("change", "boards_left"),
    [
        (lambda labels: labels, {"coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"}),
        (without_an_image, set()),
        (renumbered, set()),
        (in_other_folds, {"coco5k", "cxc", "cxc_sits_only", "eccv", "pmrp"}),
        (with_another_rating, {"coco5k", "coco1k", "cxc_sits_only", "eccv", "pmrp"}),
    ],
)
def test_published_labels_are_those_of_the_whole_test_split(coco_test, change, boards_left):
    made = boards.make_boards(change(coco_test))
    published = {each.name for each in made if each.label_hash == PUBLISHED_LABELS[each.name]}
    assert published == boards_left


def test_links_to_folders_are_followed_and_may_form_a_circle(real_data, tmp_path):
    (tmp_path / "eccv").symlink_to(real_data / "eccv_caption")
    (tmp_path / "circle").symlink_to(tmp_path)
    found = annotations.read_annotations(tmp_path, "test")
    assert len(found.caption_ids) == 25_000


def test_further_counts(real):
    histogram = [0, 16_995, 5_948, 1_599, 382, 62, 11, 2, 1]
    assert np.bincount(real["cxc"].directions["t2i"].positives.lengths).tolist() == histogram
    assert (real["cxc"].directions["t2t"].positives.lengths > 4).sum() == 1_077
    pcme = real["pmrp_pcme"].directions["i2t"].positives
    counts = [int(each.lengths.sum()) // 5 for each in pcme]
    assert counts == [93_030, 266_856, 2_363_524]


def test_two_positives_are_beyond_the_split(coco_test, real):
    unreachable = real["eccv"].directions["i2t"].unreachable
    assert set(coco_test.image_ids[unreachable == 1].tolist()) == {575916, 421999}
    assert unreachable.sum() == 2
    assert real["eccv"].directions["t2i"].unreachable is None


def test_folds_are_thousands_in_karpathy_order(coco_test, real):
    caption_folds, image_folds = real["coco1k"].directions["t2i"].folds
    np.testing.assert_array_equal(caption_folds, np.arange(25_000) // 5_000)
    assert np.bincount(image_folds).tolist() == [1_000] * 5
    assert image_folds[coco_test.image_ids == 391895] == 0


@pytest.mark.parametrize("board", ["cxc", "cxc_sits_only"])
def test_both_directions_say_the_same(real, board):
    rows = {direction: each.positives for direction, each in real[board].directions.items()}
    query, item = (np.repeat(np.arange(5_000), rows["i2t"].lengths), rows["i2t"].values)
    assert rows["t2i"].contains(item, query).all()
    for within in {"t2t", "i2i"} & set(rows):
        query = np.repeat(np.arange(len(rows[within].lengths)), rows[within].lengths)
        assert rows[within].contains(rows[within].values, query).all()
        assert (rows[within].values != query).all()


def test_the_lists_of_cxc_equal_the_ratings(coco_test, real):
    bare = dataclasses.replace(coco_test, lists={})
    (board,) = boards.make_boards(bare, ["cxc_sits_only"])
    assert board.label_hash == real["cxc_sits_only"].label_hash


@pytest.mark.parametrize(
    ("rating", "pairs", "pairs_per_sample"),
    [("sts", 44_045, 12_500), ("sis", 46_719, 2_500), ("sits", 44_833, 2_500)],
)
def test_bootstrap_queries(real, rating, pairs, pairs_per_sample):
    graded = real["cxc"].graded[rating]
    assert len(graded.scores) == pairs
    drawn = draw_pairs(graded.pairs_of_query, samples=1, seed=0)
    assert drawn.shape == (1, pairs_per_sample)


def test_bootstrap_deviation_is_the_published_one(real):
    """At rho 62 the paper prints 1.3 for SITS; queries by caption would give 0.44."""
    graded = real["cxc"].graded["sits"]
    order = scipy.stats.rankdata(graded.scores) / (len(graded.scores) + 1)
    noise = np.random.default_rng(0).standard_normal(len(order))
    model = scipy.stats.norm.ppf(order) + 1.15 * noise
    drawn = draw_pairs(graded.pairs_of_query, samples=300, seed=0)
    values = 100 * compute_spearman(model, graded.scores, drawn)
    assert 60 < values.mean() < 64
    assert 1.15 < values.std() < 1.4


@pytest.mark.slow
def test_validation_takes_its_galleries_from_the_ratings(coco_test, real_data):
    labels = annotations.read_annotations(real_data, "val")
    assert labels.split == "validation"
    made = {board.name: board for board in boards.make_boards(labels)}
    assert list(made) == ["coco5k", "cxc", "cxc_sits_only", "pmrp"]
    assert not any(board.label_hash == PUBLISHED_LABELS[name] for name, board in made.items())
    assert totals(made["coco5k"].directions["i2t"]) == (5_000, 25_000)
    assert totals(made["pmrp"].directions["i2t"])[0] == 4_948
    assert not set(labels.caption_ids) & set(coco_test.caption_ids)


@pytest.mark.slow
def test_the_released_files_are_told_from_parts_of_them(coco_test, tmp_path, real_data):
    assert coco_test.differences == ()
    assert annotations.read_annotations(real_data, "validation").differences == ()
    for name in ("original_caption_to_image.json", "coco_test_ids.npy"):
        shutil.copy(real_data / "eccv_caption" / name, tmp_path)
    lines = (real_data / "cxc/sts_test.csv").read_text().splitlines(keepends=True)
    (tmp_path / "sts_test.csv").write_text("".join(lines[:3000]))
    lists = json.loads((real_data / "eccv_caption/eccv_caption_to_image.json").read_text())
    lists.popitem()
    (tmp_path / "eccv_caption_to_image.json").write_text(json.dumps(lists))
    table = {"image_ids": coco_test.image_ids[:9], "labels": np.eye(9, 7)}
    np.savez(tmp_path / "val2014_categories.npz", **table)
    left = sum(map(len, lists.values()))
    labels = annotations.read_annotations(tmp_path, "test")
    assert labels.differences == (
        "sts_test.csv holds 2,999 pairs instead of 44,045",
        "val2014_categories.npz holds 7 categories instead of 80 and 7 images instead of 4,952",
        f"eccv_caption_to_image.json holds 1,331 queries instead of 1,332 and {left:,} positives "
        "instead of 11,279",
    )
    part = annotations.restrict(labels, labels.image_ids[:50])
    assert part.differences == labels.differences


@pytest.mark.slow
def test_test_galleries_from_the_ratings_alone(coco_test, real, tmp_path, real_data):
    for direction in ("sts", "sis", "sits"):
        shutil.copy(real_data / f"cxc/{direction}_test.csv", tmp_path)
    made = boards.make_boards(annotations.read_annotations(tmp_path, "test"))
    assert [board.name for board in made] == ["coco5k", "cxc", "cxc_sits_only"]
    # A different order, but the same items with the same labels.
    assert all(board.label_hash == real[board.name].label_hash for board in made)


def test_part_of_the_test_split(coco_test, real_data):
    with np.load(real_data / "coco/mobilenet_v2_features.npz") as features:
        part = annotations.restrict(coco_test, features["image_ids"])
    assert part.partial == "181 of 5,000 images"
    made = {board.name: board for board in boards.make_boards(part)}
    assert "coco1k" not in made
    assert made["cxc"].definition.endswith(" Only 181 of 5,000 images.")
    assert len(made["cxc"].graded["sis"].scores) == 55
    assert totals(made["cxc"].directions["t2t"]) == (25_000, 101_166)
    assert totals(made["coco5k"].directions["i2t"]) == (181, 905)
