"""Confusions of classes, counted from scores that a classification ranks by."""

import io

import numpy as np
import PIL.Image
import pytest

from tests.core.charts_test import read_bars
from tests.evals.evaluators.labeled_split import NAMES, Clusters, make_split
from tests.evals.evaluators.random_vectors import MODALITIES, options_of
from xmodal.core.charts import Bars, Matrix
from xmodal.evals import evaluate_source, make_evaluator
from xmodal.evals.reports.confusions import chart_classes, find_worst
from xmodal.evals.reports.evaluation import load_ranks
from xmodal.evals.reports.results import Result


def encode(shade):
    file = io.BytesIO()
    PIL.Image.new("RGB", (8, 8), (shade, 80, 40)).save(file, "PNG")
    return file.getvalue()


class Pictured(type(make_split(3, 0))):
    """Every image has a picture whose shade is its position."""

    has_pictures = True

    def pictures(self, rows):
        yield from map(encode, rows)


@pytest.fixture(scope="module")
def split():
    plain = make_split(60, 3, train=make_split(40, 4))
    return Pictured(**vars(plain))


@pytest.fixture(scope="module")
def evaluation(split):
    evaluator = make_evaluator("x", options_of(type="knn", k=5), split, MODALITIES)
    return evaluate_source(evaluator, Clusters(noise=2.5), name="clusters")


def test_charts_count_the_images_of_every_class(split, evaluation, tmp_path):
    evaluation.save(tmp_path)
    (stored,) = load_ranks(tmp_path).results
    accuracies, matrix = chart_classes(stored)
    assert isinstance(matrix, Matrix)
    labels = split.labels["label"]
    assert matrix.counts.sum(axis=1).tolist() == np.bincount(labels).tolist()
    right = 100 * np.diag(matrix.counts) / matrix.counts.sum(axis=1)
    drawn = dict(zip([bar.label for bar in accuracies.bars], read_bars(accuracies)[0], strict=True))
    assert drawn == pytest.approx(dict(zip(NAMES, right, strict=True)), abs=0.03)
    assert [*drawn.values()] == sorted(drawn.values())  # The worst class is first.
    assert right.mean() == pytest.approx(evaluation.metrics["mean_class_accuracy"])
    assert np.trace(matrix.counts) / 60 == pytest.approx(evaluation.metrics["accuracy@1"] / 100)


def test_pictures_are_those_of_the_confused_images(split, evaluation):
    (group,) = evaluation.groups
    counts = chart_classes(evaluation.results[0])[1].counts
    (a, b), *_ = find_worst(counts, 6)
    assert counts[a, b] == (counts - np.diag(np.diag(counts))).max() > 0
    first, *_ = group.sections
    assert first.title == f"{NAMES[a]} taken for {NAMES[b]}: {counts[a, b]} of {counts[a].sum()}"
    (row,) = first.rows
    assert len(row.items) == min(5, counts[a, b])
    for item in row.items:
        at = PIL.Image.open(io.BytesIO(item.picture)).getpixel((0, 0))[0]
        assert item.notes == [f"image {split.image_ids[at]}"]
        assert split.labels["label"][at] == a


def test_many_classes_have_a_list_of_pairs():
    own = np.repeat(np.arange(40), 10)
    predicted = own.copy()
    predicted[:7], predicted[10:13] = 39, 0
    classes = {"names": np.array([f"c{n}" for n in range(40)]), "own": own, "predicted": predicted}
    result = Result("knn", "", "", classes=classes)
    accuracies, pairs = chart_classes(result)
    assert [bar.label for bar in accuracies.bars][:3] == ["c0", "c1", "c2"]
    assert len(accuracies.bars) == 30
    assert isinstance(pairs, Bars)
    assert {bar.label: bar.value for bar in pairs.bars} == {"c0 → c39": 7, "c1 → c0": 3}
