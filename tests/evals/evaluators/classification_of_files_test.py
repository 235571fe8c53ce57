"""Classification of the embeddings in a file, which has no tower."""

import dataclasses

import numpy as np
import pytest

from tests.evals.evaluators.labeled_split import Clusters, evaluate, make_split
from xmodal.evals import Embeddings


@pytest.fixture
def split():
    return make_split(37, 0, train=make_split(41, 1, split="train"))


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


@pytest.mark.parametrize("kind", ["knn", "linear_probe"])
def test_probes_work_on_a_file_with_both_splits(split, kind):
    expected, file = evaluate(split, Clusters(), type=kind).metrics, of_file(split)
    labels = {"label": split.labels["label"][::-1]}
    turned = dataclasses.replace(split, image_ids=split.image_ids[::-1], labels=labels)
    found, of_turned = (evaluate(each, file, type=kind) for each in (split, turned))
    assert found.metrics["accuracy@1"] == pytest.approx(expected["accuracy@1"], abs=6)
    # Results with one hash are compared image by image, in any order.
    assert np.std(found.repeats["accuracy@1"]) > 0
    assert found == of_turned
