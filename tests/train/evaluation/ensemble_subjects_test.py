"""Checks of the runs in an ensemble; `evals/scores/ensemble_test.py` tests the averages."""

import types

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.train.evaluation import run_subjects

TEXTS = ("a dog", "a cat", "two dogs")


def evaluation(texts=TEXTS, dataset="coco/images:1.0.0", digits="abc", name="coco"):
    """A run with one evaluator and the records that it evaluates."""
    splits = {
        split: types.SimpleNamespace(caption_texts=texts, hashes={dataset: digits})
        for split in ("test", "train")
    }
    splits["test"].beside = splits.get
    return types.SimpleNamespace(
        options={name: types.SimpleNamespace(splits_read=("train",))},
        split_of=lambda name, split: split or "test",
        items=lambda name, split: splits[split],
    )


def refusal(**other):
    """The error for a run with these differences from another; "" if they may be averaged."""
    runs = evaluation(), evaluation(**other)
    try:
        run_subjects._own_items(*runs, None, ("runs/a", "runs/b"))
    except UserError as error:
        return str(error)
    return ""


def test_runs_on_the_same_records_are_averaged():
    assert refusal(texts=np.array(TEXTS)) == ""
    # The same captions, with other features.
    assert refusal(dataset="region_features/coco:1.0.0", digits="def") == ""


def test_the_split_that_a_probe_learns_from_has_its_own_reading_too():
    runs = evaluation(), evaluation()
    own = run_subjects._own_items(*runs, None, ("runs/a", "runs/b"))
    ours, theirs = (each.items("coco", "test") for each in runs)
    assert own(ours) is theirs
    assert own(ours.beside("train")) is theirs.beside("train")


@pytest.mark.parametrize("other", [{"texts": ("a dog", "a cat", "a bird")}, {"digits": "def"}])
def test_equal_ids_of_other_records_are_refused(other):
    message = "'coco' of runs/a and of runs/b uses different records of the split 'test'"
    assert message in refusal(**other)
