"""Settings that depend on the number of training examples."""

import pytest

from xmodal.base.config import UserError
from xmodal.runs.config.sizes import resolve_sizes

BATCH = "16; 32 from 500 examples; 0.5 epochs from 5000 examples"


@pytest.mark.parametrize(
    ("examples", "expected"),
    [(0, 16), (499, 16), (500, 32), (4999, 32), (5000, "0.5 epochs"), (10**6, "0.5 epochs")],
)
def test_the_last_value_that_enough_examples_reach_counts(examples, expected):
    config = {"batch_size": BATCH, "evals": {"own": {"every": [BATCH, 3]}}, "name": "a; b"}
    assert resolve_sizes(config, examples) == {
        "batch_size": expected,
        "evals": {"own": {"every": [expected, 3]}},
        "name": "a; b",
    }


@pytest.mark.parametrize(
    "text",
    [
        "1; 2 from 9 examples; 3 from 9 examples",
        "1; 2 from 9 examples; 3",
        "1; from 9 examples; 2 from 10 examples",
    ],
)
def test_other_texts_are_refused_with_their_place(text):
    with pytest.raises(UserError, match=r"config\.a\.b is .*ascending"):
        resolve_sizes({"a": {"b": text}}, 10)
