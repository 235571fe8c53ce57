"""Weights from another run, selected by path."""

import dataclasses
from typing import Any

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.checkpoint_shapes import describe_differences, read_shapes
from xmodal.train.sections import InitConfig
from xmodal.train.step.state import TrainState, replace_arrays
from xmodal.train.tree import check_patterns, flatten, matches, part_of

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
    items = run_folder.ITEMS if source.optimizer else ("params", "model_state")
    checkpoints.check_whole(run, step, items)
    check_weights(state, source)
    saved = read_arrays(run, step)
    taken = {path: saved[path] for path in _wanted(state, source)}
    logging.info("Initial weights (%s) from %s, step %d.", list(source.include), run, step)
    if step == 0:
        logging.warning(
            "%s learned nothing before step 0; config.init_from.step chooses another checkpoint, "
            "of %s.",
            *(run, run_folder.steps(run)),
        )
    state = dataclasses.replace(
        state,
        params=replace_arrays(state.params, taken),
        frozen=replace_arrays(state.frozen, taken),
        model_state=replace_arrays(state.model_state, taken),
    )
    if source.optimizer:
        moments = checkpoints.restore_moments(run, step, state.opt_state["moments"])
        state = dataclasses.replace(state, opt_state=state.opt_state | {"moments": moments})
    return state


def check_weights(state: TrainState, source: InitConfig) -> None:
    """Raises an error if another run's weights do not fit; reads no arrays.

    Args:
      state: the state they are for; its leaves are arrays or shapes.
      source: see `take_weights`.
    """
    run, step = source.run, run_folder.resolve_step(source.run, source.step)
    check_patterns("config.init_from.include", source.include, flatten(state.all_params()))
    saved = read_array_shapes(run, step)
    for path, leaf in _wanted(state, source).items():
        if path not in saved:
            raise UserError(
                f"{run} has no {path}; narrow config.init_from.include if it should start fresh."
            )
        if tuple(saved[path].shape) != tuple(leaf.shape):
            raise UserError(f"{path} is {leaf.shape} here but {saved[path].shape} in {run}.")
    if not source.optimizer:
        return
    # The moments of old and new parameters share one step count.
    if fresh := [path for path in flatten(state.params) if not matches(source.include, path)]:
        raise UserError(
            f"config.init_from.include={list(source.include)} leaves out {fresh[0]}, which has no "
            "moments to continue with; set config.init_from.optimizer=False."
        )
    moments = read_shapes(run_folder.step_folder(run, step) / "opt_state")["moments"]
    if differences := describe_differences(state.opt_state["moments"], moments):
        raise UserError(
            f"The optimizer of {run} has other moments than this run needs; {differences}\n"
            "Set config.init_from.optimizer=False to start with a new optimizer."
        )


def _wanted(state: TrainState, source: InitConfig) -> dict[str, Any]:
    """Returns the parameters and running statistics of a state that `include` names, by path."""
    leaves = flatten(state.all_params()) | flatten(state.model_state)
    return {
        path: leaf
        for path, leaf in leaves.items()
        if matches(source.include, part_of(path)) and not matches(_STARTS_ANEW, path)
    }


def find_taken(source: InitConfig) -> list[str]:
    """Returns the paths of another run's parameters that `include` takes."""
    step = run_folder.resolve_step(source.run, source.step)
    paths = read_array_shapes(source.run, step, ("params",))
    taken = [path for path in paths if matches(source.include, path)]
    if source.include and not taken:
        named = ", ".join(map(repr, source.include))
        raise UserError(f"config.init_from.include: {named} matches no parameter of {source.run}.")
    return taken


def read_array_shapes(
    run: str, step: int, items: tuple[str, ...] = ("params", "model_state")
) -> dict[str, Any]:
    """Returns the shapes of a checkpoint's arrays by path, frozen parameters included."""
    folders = [run_folder.step_folder(run, step) / item for item in items]
    found: dict[str, Any] = {}
    for folder in (*folders, run_folder.frozen_folder(run)):
        if folder.exists():
            found |= flatten(read_shapes(folder))
    return found


def read_arrays(run: str, step: int) -> dict[str, np.ndarray]:
    """Returns all parameters of a checkpoint and its running statistics, by path."""
    trees = [checkpoints.read_tree(run, step, item) for item in ("params", "model_state")]
    frozen = checkpoints.read_tree(run, None, "frozen")
    return flatten(trees[0]) | flatten(frozen) | flatten(trees[1])
