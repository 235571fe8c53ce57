"""Weights from another run, selected by path."""

import dataclasses
from typing import Any

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.sections import InitConfig
from xmodal.train.tree import (
    TrainState,
    check_patterns,
    describe_differences,
    flatten,
    matches,
    part_of,
    replace_arrays,
)

# No weights: copies of the towers, which follow those that are taken, and embeddings of items that
# another dataset may not have.
_STARTS_ANEW = ("momentum/", "tasks/[^/]+/module/queue/")


def take_weights(state: TrainState, source: InitConfig) -> TrainState:
    """Returns a state with initial weights replaced by another run's; the step stays 0.

    Args:
      state: freshly created.
      source: `config.init_from`: its `run` and `step`; `include` names the paths that are taken;
        `optimizer` says whether Adam's moments are taken too (the skip rule and the schedule start
        over in either case).

    Returns:
      The state with the weights and running statistics in place and the same sharding; momentum
      copies and their queues start anew.
    """
    run, step = source.run, run_folder.resolve_step(source.run, source.step)
    check_patterns("config.init_from.include", source.include, state.flat_params())
    leaves = state.flat_params() | flatten(state.model_state)
    wanted = {
        path: leaf
        for path, leaf in leaves.items()
        if matches(source.include, part_of(path)) and not matches(_STARTS_ANEW, path)
    }
    # The moments of old and new parameters share one step count.
    fresh = [path for path in flatten(state.params) if not matches(source.include, path)]
    if fresh and source.optimizer:
        raise UserError(
            f"config.init_from.include={list(source.include)} leaves out {fresh[0]}, which has no "
            "moments to continue with; set config.init_from.optimizer=False."
        )
    saved = read_arrays(run, step)
    taken = {path: array for path, array in saved.items() if path in wanted}
    if differences := describe_differences(wanted, taken):
        raise UserError(
            f"{run} does not fit the model; {differences}\nNarrow config.init_from.include if "
            "these should start anew."
        )
    logging.info("Initial weights (%s) from %s, step %d.", list(source.include), run, step)
    if step == 0:
        logging.warning(
            "%s learned nothing before step 0; config.init_from.step chooses another checkpoint, "
            "of %s.",
            *(run, run_folder.steps(run)),
        )
    state = replace_arrays(state, taken)
    if not source.optimizer:
        return state
    moments = checkpoints.restore_moments(run, step, state.opt_state["moments"])
    return dataclasses.replace(state, opt_state=state.opt_state | {"moments": moments})


def find_taken(source: InitConfig) -> list[str]:
    """Returns the paths of another run's parameters that `include` takes."""
    step = run_folder.resolve_step(source.run, source.step)
    folders = (
        run_folder.step_folder(source.run, step) / "params",
        run_folder.frozen_folder(source.run),
    )
    paths = [path for folder in folders for path in flatten(checkpoints.read_shapes(folder))]
    taken = [path for path in paths if matches(source.include, path)]
    if source.include and not taken:
        named = ", ".join(map(repr, source.include))
        raise UserError(f"config.init_from.include: {named} matches no parameter of {source.run}.")
    return taken


def read_arrays(run: str, step: int) -> dict[str, np.ndarray]:
    """Returns all parameters of a checkpoint and its running statistics, by path."""
    checkpoints.check_whole(run, step, ("params", "model_state"))
    found: dict[str, Any] = {}
    for at, item in ((step, "params"), (None, "frozen"), (step, "model_state")):
        found |= flatten(checkpoints.read_tree(run, at, item))
    return found
