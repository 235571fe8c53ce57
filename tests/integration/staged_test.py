"""A run that starts from another run and is killed midway; `papers_test` kills the first run."""

import numpy as np
import pytest

from configs import pcme, vsepp
from tests.integration.papers_test import read_state, stop_at_step_2
from xmodal.runs import loop
from xmodal.runs.folder import run_folder

pytestmark = pytest.mark.usefixtures("fast_compilation", "without_evaluation")


def make_config(paper, stage, data_dir, steps):
    config = paper.get_config(stage)
    config.total_steps, config.log_every, config.batch_size = steps, 1, 16
    config.data.data_dir = data_dir
    config.evals = {"shapes": config.evals.shapes.to_dict()}
    config.evals.shapes.update({"every": 4, "batch_size": 32})
    config.checkpoint.every = 2
    return config


@pytest.mark.slow
@pytest.mark.parametrize("paper", [pcme, vsepp])
def test_the_second_stage_starts_from_the_first_s_weights_and_resumes(
    paper, few_shapes, tmp_path, monkeypatch
):
    first = tmp_path / "first"
    loop.train(make_config(paper, "quick", few_shapes, 2), str(first))

    def train(folder):
        config = make_config(paper, "quick_finetuned", few_shapes, 4)
        config.init_from.run = str(first)
        if paper is vsepp:
            config.init_from.step = "latest"  # The best of such a short run is its start.
        loop.train(config, str(tmp_path / folder))
        return tmp_path / folder

    whole = train("whole")
    # At step 0, it has the weights of the first run, including those of PCME's similarity.
    old, new = read_state(first, 2), read_state(whole, 0)
    frozen = {path for path in new if path.startswith("params/image/encoder")}
    assert "params/text/encoder/table" in old
    if paper is pcme:
        assert old["params/similarity/match_scale"] != 15
    for path, value in old.items():
        if path.startswith(("params/", "model_state/")):
            np.testing.assert_array_equal(new[path], value, err_msg=path)
    # The CNN is now trained, with a new optimizer.
    assert frozen
    assert not frozen & old.keys()
    moments = [value for path, value in new.items() if "opt_state/moments" in path]
    assert moments
    assert all(not np.any(value) for value in moments)
    last = read_state(whole, 4)
    assert any(np.any(last[path] != new[path]) for path in frozen)

    if paper is pcme:
        return  # The rest is the same for both.
    with monkeypatch.context() as patch:
        patch.setattr(loop, "stop_signal", stop_at_step_2)
        train("stopped")
    assert run_folder.steps(str(tmp_path / "stopped"))[-1] == 2
    resumed = read_state(train("stopped"), 4)
    assert resumed.keys() == last.keys()
    for path, value in resumed.items():
        np.testing.assert_array_equal(value, last[path], err_msg=path)
