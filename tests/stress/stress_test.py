"""A short stress test: one interruption of every kind."""

import signal

import pytest

from tests.stress import annotation_load, campaign
from tests.stress.runs import Run, disturb, make_randomness


@pytest.mark.slow
def test_a_disturbed_run_ends_like_an_undisturbed_one(few_shapes, tmp_path):
    steps = {"total_steps": 60, "evaluate_every": 20, "save_every": 5}
    whole, run = (Run(tmp_path, name, few_shapes, **steps) for name in ("whole", "disturbed"))
    campaign.finish(whole)
    randomness = make_randomness(0)
    disturb(run, "save", signal.SIGKILL, 12, randomness)
    disturb(run, "evaluation", signal.SIGTERM, 16, randomness, damage="flip")
    campaign.poison(run, 41)
    campaign.finish(run)
    campaign.check_equal(run, whole)
    assert run.counts["SIGKILL in a save"] == run.counts["checkpoints damaged"] == 1
    assert run.counts["poisoned batches"] == 1


def test_answers_of_many_raters_are_all_kept(tmp_path):
    counts = annotation_load.measure(tmp_path, raters=12, answers=5)
    assert (counts["acknowledged"], counts["stored"], counts["lost_or_wrong"]) == (60, 60, 0)
    assert counts["worst_ms"] < 15_000
