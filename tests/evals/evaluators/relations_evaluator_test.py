"""Average precision of relations against plain loops."""

import numpy as np
import pytest

from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.evals import make_evaluator
from xmodal.evals.reports.metrics import compute_average_precision
from xmodal.evals.scores.sources import Predictions


def slow_average_precision(scores, positive):
    """Mean over positives of the precision among the items that score at least as high."""
    found = [positive[scores >= each].mean() for each in scores[positive > 0]]
    return np.mean(found)


@pytest.mark.parametrize("levels", [1, 2, 5, 1000])
def test_average_precision_does_not_depend_on_the_order_of_equal_scores(levels):
    generator = np.random.default_rng(levels)
    scores, positive = generator.integers(0, levels, 60), generator.random(60) < 0.3
    expected = slow_average_precision(scores, positive)
    for order in (slice(None), np.argsort(positive), np.argsort(~positive)):
        found = compute_average_precision(scores[order].astype(np.float32), positive[order])
        assert found == pytest.approx(expected)
    if levels == 1:
        assert expected == positive.mean()


def test_relations_of_true_pairs():
    generator = np.random.default_rng(4)
    relations = (generator.random((40, 3)) < 0.3).astype(np.int32)
    split = make_split(labels={"relations": relations}, label_names={"relations": ["a", "b", "c"]})
    parts = [generator.normal(size=(40, 3)).astype(np.float32) for _ in range(2)]
    source = make_source(split, predictions={"topics": Predictions(*parts)})
    section = {"type": "relations", "task": "topics"}
    (found,) = make_evaluator("x", options_of(**section), split, MODALITIES).run(source)
    images = [list(source.image_ids).index(i) for i in split.image_ids]
    captions = [list(source.caption_ids).index(i) for i in split.caption_ids]
    logits = parts[0][images] + parts[1][captions]
    each = [slow_average_precision(logits[:, c], relations[:, c]) for c in range(3)]
    expected = {f"{name}/average_precision": 100 * x for name, x in zip("abc", each, strict=True)}
    expected["mean/average_precision"] = 100 * np.mean(each)
    rates = [100 * sum(relations[:, c]) / 40 for c in range(3)]
    expected |= {f"{name}/base_rate": x for name, x in zip("abc", rates, strict=True)}
    expected["mean/base_rate"] = np.mean(rates)
    assert found.metrics == pytest.approx(expected)
    # A relation that no pair has.
    relations[:, 1] = 0
    (found,) = make_evaluator("x", options_of(**section), split, MODALITIES).run(source)
    assert np.isnan(found.metrics["b/average_precision"])
    assert found.metrics["mean/average_precision"] == pytest.approx(50 * (each[0] + each[2]))
