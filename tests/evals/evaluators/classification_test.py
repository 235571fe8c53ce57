"""Zero-shot classification, nearest neighbors and linear probes against slow references."""

import dataclasses

import numpy as np
import pytest

from tests.evals.evaluators.labeled_split import NAMES, Clusters, evaluate, make_split
from tests.evals.evaluators.random_vectors import MODALITIES, options_of
from xmodal.core.errors import UserError
from xmodal.evals import Embeddings, evaluate_source, make_evaluator
from xmodal.evals.evaluators.classification import compute_accuracies
from xmodal.evals.evaluators.classifiers import fit
from xmodal.evals.reports.uncertainty import compute_interval, draw_resamples


@pytest.fixture
def split():
    return make_split(37, 0, train=make_split(41, 1, split="train"))


def in_order(adapter, split):
    found = adapter.items(split)
    row = {int(each): i for i, each in enumerate(found.image_ids)}
    return np.array([found.images[row[int(each)]] for each in split.image_ids], np.float64)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def accuracies(scores, labels):
    """By one image after the other; `accuracy@5` of three classes would be 100."""
    hits, by_class = {1: [], 5: []}, {}
    for row, label in zip(scores, labels, strict=True):
        # The places of the own class, if equal scores may come in any order.
        first, equal = sum(row > row[label]), sum(row == row[label])
        places = range(first, first + equal) if np.isfinite(row[label]) else [len(row)]
        for depth, found in hits.items():
            found.append(np.mean([place < depth for place in places]))
        by_class.setdefault(label, []).append(hits[1][-1])
    depths = (1,) if len(scores[0]) <= 5 else (1, 5)
    return {
        **{f"accuracy@{depth}": 100 * np.mean(hits[depth]) for depth in depths},
        "mean_class_accuracy": 100 * np.mean([np.mean(each) for each in by_class.values()]),
    }


def test_zero_shot_by_hand(split):
    adapter, templates = Clusters(), ("a {}", "there is a {} here", "name")
    found = evaluate(split, adapter, type="zero_shot", templates=templates)
    classes = []
    for name in NAMES:
        prompts = [f"a {name}", f"there is a {name} here", name]
        classes.append(unit(np.mean([unit(adapter.embed("text", [p])[0]) for p in prompts], 0)))
    scores = unit(in_order(adapter, split)) @ np.array(classes).T
    expected = accuracies(scores, split.labels["label"])
    assert {tag: found.metrics[tag] for tag in expected} == pytest.approx(expected)
    assert 40 < expected["accuracy@1"] < 100
    assert found.metrics["queries"] == 37
    assert found.metrics["gallery"] == 3


class Constant(Clusters):
    """All images and all texts have one vector."""

    def items(self, split, **options):
        found = super().items(split, **options)
        return dataclasses.replace(found, images=np.full_like(found.images, 0.3))

    def embed(self, modality, given, **options):
        return np.full_like(super().embed(modality, given, **options), 0.3)


@pytest.mark.parametrize("kind", ["zero_shot", "knn", "linear_probe"])
def test_a_constant_model_is_at_chance(split, kind):
    split.train.labels = {"label": np.arange(41) % 3}
    evaluator = make_evaluator("x", options_of(type=kind), split, MODALITIES)
    found = evaluate_source(evaluator, Constant(), name="constant")
    assert found.metrics["mean_class_accuracy"] == pytest.approx(100 / 3)


@pytest.mark.parametrize("k", [1, 7, 200])
def test_neighbors_by_hand(split, k):
    adapter, temperature = Clusters(noise=1.5), 0.3
    found = evaluate(split, adapter, type="knn", k=k, temperature=temperature)
    images, train = (unit(in_order(adapter, each)) for each in (split, split.train))
    labels, rows = split.train.labels["label"], []
    for image in images:
        cosines = train @ image
        votes = np.zeros(len(NAMES))
        for place in np.argsort(-cosines, kind="stable")[:k]:
            votes[labels[place]] += np.exp(cosines[place] / temperature)
        rows.append([vote if vote else -np.inf for vote in votes])
    expected = accuracies(np.array(rows), split.labels["label"])
    assert {tag: found.metrics[tag] for tag in expected} == pytest.approx(expected)


def test_a_probe_is_at_the_minimum_of_its_objective():
    generator, weight = np.random.default_rng(0), 0.03
    features = unit(generator.normal(size=(53, 7))).astype(np.float32)
    labels = generator.integers(0, 4, 53)
    matrix, bias = fit(features, labels, weight, classes=4)

    def objective(flat):
        w, b = np.split(flat, [28])
        logits = features.astype(np.float64) @ w.reshape(7, 4) + b
        own = logits[np.arange(53), labels]
        entropy = np.mean(np.log(np.exp(logits).sum(axis=1)) - own)
        return entropy + weight / 2 * np.sum(w * w)

    flat = np.concatenate([matrix.ravel(), bias]).astype(np.float64)
    slope = [(objective(flat + e) - objective(flat - e)) / 2e-5 for e in 1e-5 * np.eye(32)]
    assert np.abs(slope).max() < 1e-4


def test_intervals_are_those_of_a_plain_bootstrap():
    generator = np.random.default_rng(2)
    classes, rank = generator.integers(0, 6, 23) * 3, generator.integers(0, 8, 23)
    hits = (rank[:, None] < [1, 5]).astype(float)
    found, _ = compute_accuracies(hits, classes, depths=[1, 5], samples=50, seed=4)
    counts = draw_resamples(23, 50, 4)
    samples = {}
    for column in counts.astype(int):
        rows = np.repeat(np.arange(23), column)
        scores = np.zeros((len(rows), 20))
        for line, row in zip(scores, rows, strict=True):
            line[[c for c in range(20) if c != classes[row]][: rank[row]]] = 1
            line[classes[row]] = 0.5
        for tag, value in accuracies(scores, classes[rows]).items():
            samples.setdefault(tag, []).append(value)
    for tag, values in samples.items():
        limits = found[f"{tag}_low"], found[f"{tag}_high"]
        assert limits == pytest.approx(compute_interval(np.array(values)))


def test_evaluated_images_are_not_learned_from(split):
    with pytest.raises(UserError, match="learns from the evaluated split, 'test'; name another"):
        make_evaluator("x", options_of(type="knn", train_split="test"), split, MODALITIES)


def test_classes_without_training_images_and_copies_are_named(split):
    split.image_hashes, split.train.image_hashes = np.arange(37), np.arange(30, 71)
    split.labels = {"label": np.arange(37) % 3}
    split.train.labels = {"label": np.arange(30, 71) % 3 // 2 * 2}
    classes, copies = make_evaluator("x", options_of(type="knn"), split, MODALITIES).warnings()
    assert "animals train has none of 'cat'." in classes
    assert "7 of 37 images are also in animals train." in copies


def of_file(split):
    """Embeddings of both splits, as a file has them."""
    first, second = (Clusters().items(each) for each in (split, split.train))
    split.train.image_ids = split.train.image_ids + 1000  # Ids of a dataset are unique.
    return Embeddings(
        "model.npz",
        np.concatenate([first.image_ids, second.image_ids + 1000]),
        np.concatenate([first.images, second.images]),
        None,
        None,
        "dot",
    )


def test_probes_work_on_a_file_with_both_splits(split):
    expected, file = evaluate(split, Clusters(), type="linear_probe").metrics, of_file(split)
    labels = {"label": split.labels["label"][::-1]}
    turned = dataclasses.replace(split, image_ids=split.image_ids[::-1], labels=labels)
    found, of_turned = (evaluate(each, file, type="linear_probe") for each in (split, turned))
    assert found.metrics["accuracy@1"] == pytest.approx(expected["accuracy@1"], abs=6)
    # Results with one hash are compared image by image, in any order.
    assert np.std(found.repeats["accuracy@1"]) > 0
    assert found == of_turned
