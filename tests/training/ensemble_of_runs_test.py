"""Which runs may be averaged; `evals/inputs/ensemble_test.py` has the averages."""

import types

import numpy as np
import pytest

from xmodal.config import UserError
from xmodal.training import ensemble

TEXTS = ("a dog", "a cat", "two dogs")


def evaluation(texts=TEXTS, digits="abc", name="coco"):
    """What a run judges with one evaluator."""
    items = types.SimpleNamespace(caption_texts=texts, hashes={"coco/images:1.0.0": digits})
    return types.SimpleNamespace(
        options={name: None},
        split_of=lambda name, split: split or "test",
        items=lambda name, split: items,
    )


def check(other):
    ensemble._check_items(evaluation(), other, None, ("runs/a", "runs/b"))


def test_runs_on_the_same_records_are_averaged():
    check(evaluation(np.array(TEXTS)))
    # The same captions, behind other features.
    features = evaluation()
    features.items("coco", "test").hashes = {"region_features/coco:1.0.0": "def"}
    check(features)


@pytest.mark.parametrize("other", [{"texts": ("a dog", "a cat", "a bird")}, {"digits": "def"}])
def test_equal_ids_of_other_records_are_refused(other):
    message = "'coco' of runs/a and of runs/b judges other records of the split 'test'"
    with pytest.raises(UserError, match=message):
        check(evaluation(**other))


def test_an_evaluator_that_one_run_lacks_is_named():
    with pytest.raises(UserError, match=r"'coco' in config.evals of runs/b.*flickr8k"):
        check(evaluation(name="flickr8k"))
