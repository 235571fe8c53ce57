"""Weights from another run, selected by path."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.checkpoint_shapes import describe_differences, read_shapes
from xmodal.train.optimization.optimizer import moments_of, with_moments
from xmodal.train.sections import InitConfig
from xmodal.train.step.state import TrainState, replace_arrays
from xmodal.train.tree import Tree, flatten, matches, part_of

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

    Raises:
      UserError: an unknown key, run or step; a pattern that matches nothing; an included array
        that the other run lacks, or has in another shape.
    """
    run, include = source.run, source.include
    step = run_folder.resolve_step(run, source.step)
    items = run_folder.ITEMS if source.optimizer else ("params", "model_state")
    checkpoints.check_whole(run, step, items)
    check_weights(state, source)
    saved = read_params(run, step)
    statistics = flatten(checkpoints.read_tree(run, step, "model_state"))
    params = _take(state.params, saved, include, run)
    frozen = _take(state.frozen, saved, include, run)
    model_state = _take(state.model_state, statistics, include, run)
    logging.info("Initial weights (%s) from %s, step %d.", list(include), run, step)
    if step == 0:
        logging.warning(
            "%s learned nothing before step 0; config.init_from.step chooses another checkpoint, "
            "of %s.",
            *(run, run_folder.steps(run)),
        )
    state = dataclasses.replace(state, params=params, frozen=frozen, model_state=model_state)
    if source.optimizer:
        moments = checkpoints.restore_moments(run, step, moments_of(state.opt_state))
        state = dataclasses.replace(state, opt_state=with_moments(state.opt_state, moments))
    return state


def check_weights(state: TrainState, source: InitConfig) -> None:
    """Raises an error if another run's weights do not fit; reads no arrays.

    Args:
      state: the state they are for; its leaves are arrays or shapes.
      source: see `take_weights`.

    Raises:
      UserError: see `take_weights`.
    """
    step = run_folder.resolve_step(source.run, source.step)
    saved = read_param_shapes(source.run, step)
    params = flatten(state.all_params())
    for pattern in source.include:
        if not any(matches([pattern], path) for path in params):
            raise UserError(f"config.init_from.include: {pattern!r} matches no parameter.")
    for path, leaf in params.items():
        if matches(source.include, path):
            _check_leaf(path, leaf, saved, source.run)
    if source.optimizer:
        _check_moments(state, source, step)


def _check_moments(state: TrainState, source: InitConfig, step: int) -> None:
    # The moments of old and new parameters share one step count.
    if fresh := [path for path in flatten(state.params) if not matches(source.include, path)]:
        raise UserError(
            f"config.init_from.include={list(source.include)} leaves out {fresh[0]}, which has no "
            "moments to continue with; set config.init_from.optimizer=False."
        )
    saved = read_shapes(run_folder.step_folder(source.run, step) / "opt_state")
    moments = moments_of(state.opt_state)
    if differences := describe_differences(moments, moments_of(saved)):
        raise UserError(
            f"The optimizer of {source.run} has other moments than this run needs; {differences}\n"
            "Set config.init_from.optimizer=False to start with a new optimizer."
        )


def split_paths(source: InitConfig) -> tuple[list[str], list[str]]:
    """Returns the paths of another run's parameters that `include` takes, and the others.

    Raises:
      UserError: there is no such run or checkpoint, or `include` matches nothing in it.
    """
    step = run_folder.resolve_step(source.run, source.step)
    taken: list[str] = []
    others: list[str] = []
    for path in read_param_shapes(source.run, step):
        (taken if matches(source.include, path) else others).append(path)
    if source.include and not taken:
        named = ", ".join(map(repr, source.include))
        raise UserError(f"config.init_from.include: {named} matches no parameter of {source.run}.")
    return taken, others


def read_param_shapes(run: str, step: int) -> dict[str, Any]:
    """Returns the shapes of all parameters of a checkpoint, trained and frozen, by path."""
    folders = (run_folder.step_folder(run, step) / "params", run_folder.frozen_folder(run))
    found: dict[str, Any] = {}
    for folder in folders:
        if folder.exists():
            found |= flatten(read_shapes(folder))
    return found


def read_params(run: str, step: int) -> dict[str, np.ndarray]:
    """Returns all parameters of a checkpoint, trained and frozen, by path."""
    trained = checkpoints.read_tree(run, step, "params")
    return flatten(trained) | flatten(checkpoints.read_tree(run, None, "frozen"))


def _check_leaf(path: str, leaf: Any, source: Mapping[str, Any], run: str) -> None:
    if path not in source:
        raise UserError(
            f"{run} has no {path}; narrow config.init_from.include if it should start fresh."
        )
    if tuple(source[path].shape) != tuple(leaf.shape):
        raise UserError(f"{path} is {leaf.shape} here but {source[path].shape} in {run}.")


def _take(tree: Tree, source: Mapping[str, np.ndarray], include: Sequence[str], run: str) -> Tree:
    taken = {}
    for path, leaf in flatten(tree).items():
        if matches(include, part_of(path)) and not matches(_STARTS_ANEW, path):
            _check_leaf(path, leaf, source, run)
            taken[path] = source[path]
    return replace_arrays(tree, taken)
