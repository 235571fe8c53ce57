"""All benchmarks on released labels against a slow reference and the package eccv_caption."""

import dataclasses

import numpy as np
import pytest

from tests.evals import reference
from xmodal.evals.evaluators.runner import compute_benchmarks
from xmodal.evals.labels.annotations import read_annotations, restrict
from xmodal.evals.labels.definitions import definitions_of
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import make_similarity

NUM_IMAGES = 250
# Two images with a positive of ECCV Caption that is outside the split.
BEYOND = [575916, 421999]
SAMPLES = 50


@pytest.fixture(scope="module")
def labels(real_data):
    """Images of the test split, those with rare kinds of labels first, in five folds."""
    whole = read_annotations(real_data, "test")
    owner = dict(zip(whole.caption_ids, whole.caption_image_ids, strict=True))
    rows = {
        task: list(zip(rated["left_ids"], rated["right_ids"], rated["scores"], strict=True))
        for task, rated in whole.ratings.items()
    }
    poor = [i for caption, i, score in rows["sits"] if score < 3 and owner[caption] == i]
    alike = [{owner[a], owner[b]} for a, b, score in rows["sts"] if score >= 3]
    alike = [image for pair in alike if len(pair) == 2 for image in sorted(pair)]
    chosen = dict.fromkeys([*BEYOND, *poor, *alike[:120], *whole.image_ids])
    images = np.array(list(chosen)[:NUM_IMAGES])
    captions = whole.caption_ids[np.isin(whole.caption_image_ids, images)]
    part = restrict(whole, images, captions)
    folds = np.arange(NUM_IMAGES, dtype=np.int32) // (NUM_IMAGES // 5)
    return dataclasses.replace(part, folds=folds, partial="")  # folds need a complete split


@pytest.fixture(scope="module")
def benchmarks(labels):
    # The list of VinVL is not among the files.
    names = [name for name in definitions_of(labels.name) if name != "vinvl_1k"]
    return make_benchmarks(labels, names)


@pytest.fixture(scope="module")
def split(labels):
    found = reference.split_of(labels)
    # Cases that are easy to get wrong occur here.
    captions, owner = set(found.ids["T"]), found.image_of
    listed = found.lists["eccv"]["i2t"].values()
    assert sum(not captions.issuperset(own) for own in listed) == len(BEYOND)
    assert not all(found.categories.values())
    assert sum(score < 3 and owner[a] == b for a, b, score in found.ratings["sits"]) > 20
    assert sum(score >= 3 and owner[a] != owner[b] for a, b, score in found.ratings["sts"]) > 50
    assert sum(score >= 2.5 for _, _, score in found.ratings["sis"]) > 20
    return found


def make_embeddings(kind, labels):
    """Images [N, 24] and captions [M, 24]."""
    generator = np.random.default_rng(0)
    position = {int(image): i for i, image in enumerate(labels.image_ids)}
    owner = np.array([position[int(image)] for image in labels.caption_image_ids])
    shapes = (len(labels.image_ids), 24), (len(owner), 24)
    if kind == "whole numbers":
        return tuple(generator.integers(-1, 2, shape).astype(np.float32) for shape in shapes)
    image, text = (generator.standard_normal(shape, dtype=np.float32) for shape in shapes)
    if kind == "structured":
        text = image[owner] + 0.7 * text
    if kind == "duplicated":
        text = image[owner] + text
        image[1::2] = image[::2]
        text[generator.permutation(len(text))[:700]] = text[:700]
    return image, text


def source_of(labels, image, text, similarity):
    return Embeddings("here", labels.image_ids, image, labels.caption_ids, text, similarity)


def score_all(image, text, similarity):
    """Complete score matrices for the reference."""
    prepare, score = make_similarity({"name": similarity}).scorer()
    prepared = {"I": prepare(image), "T": prepare(text)}
    vectors = {"I": image.astype(np.float64), "T": text.astype(np.float64)}
    if similarity == "cosine":
        vectors = {k: v / np.linalg.norm(v, axis=1, keepdims=True) for k, v in vectors.items()}
    scores = {}
    for left, right in ("IT", "TT", "II"):
        scores[left + right] = found = np.asarray(score(prepared[left], prepared[right]))
        np.testing.assert_allclose(found, vectors[left] @ vectors[right].T, atol=1e-4)
    return scores


def assert_equal_numbers(found, expected):
    assert set(found) == set(expected)
    for tag, value in expected.items():
        # Rated pairs whose scores float32 cannot tell apart may swap.
        tolerance = 0.01 if "spearman" in tag else 1e-9
        np.testing.assert_allclose(found[tag], value, rtol=0, atol=tolerance, err_msg=tag)


KINDS = {"structured": "cosine", "duplicated": "cosine", "whole numbers": "dot"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_every_benchmark(kind, labels, benchmarks, split):
    image, text = make_embeddings(kind, labels)
    source = source_of(labels, image, text, KINDS[kind])
    how = {"bootstrap_samples": SAMPLES, "seed": 3, "budget": 256}
    results = compute_benchmarks(source, labels, benchmarks, **how)
    scores = score_all(image, text, KINDS[kind])
    expected = reference.Reference(split, scores, samples=SAMPLES, seed=3)
    assert_equal_numbers(summarize(results, intervals=False), expected.numbers)
    (cxc,) = (result for result in results if result.name == "cxc")
    for task, samples in expected.correlations.items():
        found = cxc.correlations[task].samples / 100
        np.testing.assert_allclose(found, samples, rtol=0, atol=1e-3)


# Our names -> the package's.
ECCV_CAPTION = {
    **{
        f"{ours}/{{task}}/recall@{k}": f"{theirs}_r{k}"
        for ours, theirs in {
            "coco5k": "coco_5k",
            "coco1k": "coco_1k",
            "cxc_sits_only": "cxc",
        }.items()
        for k in (1, 5, 10)
    },
    "eccv/{task}/map@r": "eccv_map_at_r",
    "eccv/{task}/r_precision": "eccv_rprecision",
    "eccv/{task}/recall@1": "eccv_r1",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:failed to import `ujson`")
@pytest.mark.parametrize("kind", ["structured", "duplicated"])
def test_eccv_caption(kind, labels, benchmarks, split):
    package = pytest.importorskip("eccv_caption").Metrics()
    package.coco_gts = {
        "i2t": {image: list(own) for image, own in reference.own_positives(split, "i2t").items()},
        "t2i": {caption: [image] for caption, image in split.image_of.items()},
    }
    package.cxc_gts, package.eccv_gts = split.lists["cxc"], split.lists["eccv"]
    package.coco_ids = np.array(split.ids["T"])
    image, text = make_embeddings(kind, labels)
    matrix = score_all(image, text, KINDS[kind])["IT"]
    theirs = package.compute_all_metrics(
        reference.rank_all(split, "i2t", matrix),
        reference.rank_all(split, "t2i", matrix.T),
        target_metrics=("coco_1k_recalls", "coco_5k_recalls", "cxc_recalls")
        + ("eccv_map_at_r", "eccv_rprecision", "eccv_r1"),
    )
    source = source_of(labels, image, text, KINDS[kind])
    found = compute_benchmarks(source, labels, benchmarks, bootstrap_samples=2)
    ours = summarize(found, intervals=False)
    for task in ("i2t", "t2i"):
        for tag, name in ECCV_CAPTION.items():
            expected = 100.0 * theirs[name][task]
            assert ours[tag.format(task=task)] == pytest.approx(expected, rel=0, abs=1e-9), tag
