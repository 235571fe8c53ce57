"""A run that starts from the weights of another one, and resumes."""

import shutil

import jax
import numpy as np
import pytest

from configs import pcme, vsepp
from tests.integration.papers_test import read_state, shrink
from xmodal.train import loop
from xmodal.train.resolve import resolve
from xmodal.train.start import initial_state

pytestmark = pytest.mark.usefixtures("fast_compilation", "quick_draws", "without_evaluation")


def make_config(paper, stage, data_dir, steps):
    config = paper.get_config(stage)
    config.total_steps, config.log_every, config.batch_size = steps, 1, 16
    config.data.data_dir = data_dir
    shrink(config)
    config.evals = {"shapes": config.evals.shapes.to_dict()}
    config.evals.shapes.update({"every": 4, "batch_size": 32})
    config.checkpoint.every = 2
    return config


def second_stage(paper, data_dir, first):
    config = make_config(paper, "quick_finetuned", data_dir, 4)
    config.init_from.run = str(first)
    if paper is vsepp:
        config.init_from.step = "latest"  # The best of such a short run is its start.
    return config


def name_arrays(state):
    """All arrays of a state by the names that `read_state` gives to those of a checkpoint."""
    items = {"params": state.params, "model_state": state.model_state, "opt_state": state.opt_state}
    return {
        jax.tree_util.keystr(keys, simple=True, separator="/"): np.asarray(leaf)
        for keys, leaf in jax.tree_util.tree_leaves_with_path(items)
    }


@pytest.mark.slow
@pytest.mark.parametrize("paper", [pcme, vsepp])
def test_the_second_stage_starts_from_the_first_s_weights(paper, few_shapes, tmp_path):
    first = tmp_path / "first"
    loop.train(make_config(paper, "quick", few_shapes, 2), str(first))
    parts = resolve(second_stage(paper, few_shapes, first))
    # At step 0, it has the weights of the first run, including those of PCME's similarity.
    old, new = read_state(first, 2), name_arrays(initial_state(parts))
    assert "params/text/encoder/table" in old
    if paper is pcme:
        assert old["params/similarity/match_scale"] != 15
    for path, value in old.items():
        if path.startswith(("params/", "model_state/")):
            np.testing.assert_array_equal(new[path], value, err_msg=path)
    # The CNN is now trained, with a new optimizer.
    frozen = {path for path in new if path.startswith("params/image/encoder")}
    assert frozen
    assert not frozen & old.keys()
    moments = [value for path, value in new.items() if "opt_state/moments" in path]
    assert moments
    assert all(not np.any(value) for value in moments)

    if paper is pcme:
        return  # The rest is the same for both.
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    loop.train(second_stage(paper, few_shapes, first), str(whole))
    last = read_state(whole, 4)
    assert any(np.any(last[path] != new[path]) for path in frozen)
    # A copy as it was at step 2 makes the other two steps again, to the same bits.
    shutil.copytree(whole, resumed)
    shutil.rmtree(resumed / "checkpoints/4")
    (resumed / "finished.json").unlink()
    loop.train(second_stage(paper, few_shapes, first), str(resumed))
    again = read_state(resumed, 4)
    assert again.keys() == last.keys()
    for path, value in again.items():
        np.testing.assert_array_equal(value, last[path], err_msg=path)
