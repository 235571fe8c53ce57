"""Relations predicted from the words of captions, evaluated like a model's predictions."""

import numpy as np
import pytest

from configs import cmcm_clue
from xmodal.apps.analysis import caption_relations


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
