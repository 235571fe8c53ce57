"""The released label files of MS-COCO: counts, hashes, and parts of them."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from xmodal.evals.labels import annotations
from xmodal.evals.labels import make as benchmarks
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
    return {benchmark.name: benchmark for benchmark in benchmarks.make_benchmarks(coco_test, names)}


def totals(direction):
    """Numbers of queries, and of their positives."""
    return int((direction.positives.lengths > 0).sum()), int(direction.positives.lengths.sum())


@pytest.mark.parametrize(
    ("benchmark", "direction", "queries", "positives"),
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
def test_published_counts(real, benchmark, direction, queries, positives):
    assert totals(real[benchmark].directions[direction]) == (queries, positives)


def without_an_image(labels):
    return annotations.restrict(labels, labels.image_ids[1:], labels.caption_ids[5:])


def in_other_folds(labels):
    return dataclasses.replace(labels, folds=np.roll(labels.folds, 1))


@pytest.mark.parametrize(
    ("change", "benchmarks_left"),
    [
        (lambda labels: labels, {"coco5k", "coco1k", "cxc", "cxc_sits_only", "eccv", "pmrp"}),
        (without_an_image, set()),
        (in_other_folds, {"coco5k", "cxc", "cxc_sits_only", "eccv", "pmrp"}),
    ],
)
def test_published_labels_are_those_of_the_whole_test_split(coco_test, change, benchmarks_left):
    made = benchmarks.make_benchmarks(change(coco_test))
    published = {each.name for each in made if each.label_hash == PUBLISHED_LABELS[each.name]}
    assert published == benchmarks_left
    assert {each.name for each in made if each.label_set == each.name} == benchmarks_left


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
    made = {benchmark.name: benchmark for benchmark in benchmarks.make_benchmarks(labels)}
    assert list(made) == ["coco5k", "cxc", "cxc_sits_only", "pmrp"]
    assert totals(made["coco5k"].directions["i2t"]) == (5_000, 25_000)
    assert totals(made["pmrp"].directions["i2t"])[0] == 4_948
    assert not set(labels.caption_ids) & set(coco_test.caption_ids)
