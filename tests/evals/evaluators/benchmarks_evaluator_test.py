"""The evaluator of benchmarks."""

import dataclasses

import numpy as np
import pytest

from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.evals import make_evaluator
from xmodal.evals.reports.summary import summarize


@pytest.mark.parametrize("modalities", [MODALITIES, ("text",)])
@pytest.mark.parametrize("name", ["crisscrossed_shapes", "coco_captions"])
def test_the_tags_of_benchmarks_are_those_of_their_results(name, modalities):
    generator = np.random.default_rng(0)
    split = make_split(captions=3, name=name)
    ids = {"text": split.caption_ids, "image": split.image_ids}
    ratings = {
        rating: {
            "left_ids": generator.choice(ids[left], 60),
            "right_ids": generator.choice(ids[right], 60),
            "scores": generator.uniform(0, 5, 60).astype(np.float32),
        }
        for rating, (left, right) in {"sts": ("text", "text"), "sits": ("text", "image")}.items()
    }
    split = dataclasses.replace(split, ratings=ratings)
    source = make_source(split)
    if "image" not in modalities:
        source = dataclasses.replace(source, image_ids=None, images=None)
    evaluator = make_evaluator("x", options_of(type="benchmarks"), split, modalities)
    found = summarize(evaluator.run(source), intervals=False)
    assert len(found) > 8
    assert sorted(evaluator.tags(modalities)) == sorted(found)
