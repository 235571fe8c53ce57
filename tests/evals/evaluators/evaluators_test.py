"""Options of all evaluators, and the tags of their results."""

import dataclasses

import numpy as np
import pytest

from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.core.errors import UserError
from xmodal.evals import make_evaluator
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores.sources import Predictions


def labels_of(records):
    """Every label column that an evaluator reads."""
    generator = np.random.default_rng(3)
    return {
        "score": generator.uniform(0, 5, records).round(1),
        "set": generator.choice(["images2014", "belief2015", "old"], records),
        "average": generator.choice([0, 2014, 2015], records),
        "relations": generator.integers(0, 2, (records, 3)),
    }


@pytest.mark.parametrize(
    ("captions", "section"),
    [
        (2, {"type": "embedding_similarity"}),
        (1, {"type": "pools", "size": 9, "repeats": 2, "directions": ("i2t", "t2i")}),
        (1, {"type": "pools", "size": 20, "repeats": 2, "without": ("a", "c")}),
        (1, {"type": "relations", "task": "task", "select": (0, 2)}),
    ],
)
def test_the_tags_of_numbers_are_those_of_their_results(captions, section):
    names = {"relations": ["a", "b", "c"]}
    split = make_split(captions=captions, labels=labels_of(40), label_names=names)
    width = 2  # of the selected relations
    predictions = Predictions(
        np.zeros((len(split.image_ids), width)), np.zeros((len(split.caption_ids), width))
    )
    evaluator = make_evaluator("x", options_of(**section), split, MODALITIES)
    found = summarize(
        evaluator.run(make_source(split, predictions={"task": predictions})), intervals=False
    )
    assert sorted(evaluator.tags(MODALITIES)) == sorted(found)


@pytest.mark.parametrize("modalities", [MODALITIES, ("text",)])
def test_the_tags_of_benchmarks_are_those_of_their_results(modalities):
    generator = np.random.default_rng(0)
    split = make_split(captions=3)
    captions, images = split.caption_ids, split.image_ids
    scores = np.arange(60, dtype=np.float32) / 12
    split.ratings = {
        name: {"left_ids": captions[:60], "right_ids": generator.choice(ids, 60), "scores": scores}
        for name, ids in (("sts", captions), ("sits", images))
    }
    source = make_source(split)
    if "image" not in modalities:
        source = dataclasses.replace(source, image_ids=None, images=None)
    evaluator = make_evaluator("x", options_of(type="benchmarks"), split, modalities)
    found = summarize(evaluator.run(source), intervals=False)
    assert len(found) > 8
    assert sorted(evaluator.tags(modalities)) == sorted(found)


def test_a_split_that_lacks_a_column():
    split = make_split(labels={"relations": np.zeros((40, 2), int)})
    with pytest.raises(UserError, match=r"column 'score', which .* lacks; known: .'relations'"):
        make_evaluator("x", options_of(type="embedding_similarity"), split, MODALITIES)


@pytest.mark.parametrize("kept", [("image",), ()])
def test_a_model_that_has_nothing_to_rank_by(kept):
    split = make_split(captions=3)
    evaluator = make_evaluator("x", options_of(type="benchmarks"), split, kept)
    lacking = {"caption_ids": None, "captions": None}
    lacking |= {} if kept else {"image_ids": None, "images": None}
    with pytest.raises(UserError, match="nothing to rank by: there are no .*caption embeddings"):
        evaluator.run(dataclasses.replace(make_source(split), **lacking))
