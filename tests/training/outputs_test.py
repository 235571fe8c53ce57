"""When a run evaluates and saves; `loop_test` has what it does then."""

import pytest

from xmodal.training import outputs


@pytest.mark.parametrize(
    ("step", "every", "due"),
    [(0, 5, True), (4, 5, False), (5, 5, True), (12, 5, True), (3, 0, False), (12, 0, True)],
)
def test_what_is_due_when(step, every, due):
    assert outputs.is_due(step, every, total_steps=12) == due
