"""Evaluation of a run and of its checkpoints."""

import pytest

from tests.saved_run import make_config
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.run_subjects import open_run
from xmodal.train.evaluation.subjects import evaluate_subjects
from xmodal.train.resolve import build_run

pytestmark = pytest.mark.slow


def test_a_checkpoint_that_went_before_it_was_read(few_shapes, saved_run_dir, tmp_path):
    """A training run keeps only the last few; only a follower skips missing ones."""
    config = make_config(few_shapes)
    evaluation = RunEvaluation(build_run(config, mesh_lib.make_mesh()), trains=False)
    with pytest.raises(UserError, match=r"no checkpoint of step 1; it has \[0, 2, 4\]"):
        evaluate_subjects(open_run(evaluation, str(saved_run_dir), [1]), str(tmp_path / "one"))
    opened = open_run(evaluation, str(saved_run_dir), [1], follows=True)
    found = evaluate_subjects(opened, str(tmp_path / "all"), follows=True)
    assert found == []
