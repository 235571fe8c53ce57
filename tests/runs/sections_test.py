import math

import pytest

from xmodal.runs.sections import SelectConfig


@pytest.mark.parametrize(
    ("mode", "value", "score"),
    [("max", 0.5, 0.5), ("min", 0.5, -0.5), ("max", math.nan, -math.inf), ("min", None, -math.inf)],
)
def test_the_score_is_higher_for_better_metrics(mode, value, score):
    metrics = {} if value is None else {"sts/avg2016/pearson": value}
    assert SelectConfig("sts/avg2016/pearson", mode).score(metrics) == score
