"""Relations predicted from the words of captions, evaluated like a model's predictions."""

import numpy as np
import pytest

from configs import cmcm_clue
from xmodal.apps.analysis import caption_relations


def test_words_that_tell_a_relation_are_found():
    pytest.importorskip("sklearn")
    generator = np.random.default_rng(0)
    labels = generator.random((300, 3)) < [0.3, 0.1, 1.0]
    captions = [
        " ".join(["a", str(generator.choice(["Dog", "cat"])), *["near"] * one, *["so far"] * two])
        for one, two, _ in labels.tolist()
    ]
    found = caption_relations.predict_relations(captions, labels.astype(int), captions)
    assert found.shape == (300, 3)
    for column in range(2):
        scores, positive = found[:, column], labels[:, column]
        assert scores[positive].min() > 0 > scores[~positive].max()
    assert np.ptp(found[:, 2]) == 0  # of all: nothing to learn


@pytest.mark.slow
def test_evaluators_of_a_config_evaluate_it(few_shapes):
    pytest.importorskip("sklearn")
    config = cmcm_clue.get_config("quick,captions")
    config.data.data_dir = few_shapes
    found = caption_relations.judge_baseline(config.to_dict())["relations"].tagged
    names = ("Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant")
    rates = [found[f"relations/{name}/base_rate"] for name in names]
    assert found["relations/mean/base_rate"] == pytest.approx(np.mean(rates))
    # The describers' wording reveals stories and remarks.
    for name in ("Story", "Meta"):
        tag = f"relations/{name}"
        assert found[f"{tag}/average_precision"] > found[f"{tag}/base_rate"] + 20
