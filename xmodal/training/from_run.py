"""Weights of another run, taken by path."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from xmodal import buckets
from xmodal.config import UserError
from xmodal.training import checkpoints, run_folder
from xmodal.training.optimizer import with_moments
from xmodal.training.sections import InitConfig
from xmodal.training.state import TrainState
from xmodal.training.tree import flatten


def take_weights(state: TrainState, source: InitConfig) -> TrainState:
    """Returns a state with weights of another run in place of initial ones; the step stays 0.

    Args:
      state: freshly created.
      source: `config.init_from`: its `run` and `step`; `include` names the paths that are taken;
        `optimizer` says whether Adam's moments come along (the skip rule and the schedule start
        anew in either case).

    Returns:
      The state with the weights in place and laid out as before.

    Raises:
      UserError: an unknown key, run or step; a pattern that matches nothing; an included array
        the other run does not have, or has in another shape.
    """
    run, include = source.run, source.include
    step = run_folder.resolve_step(run, source.step)
    items = run_folder.ITEMS if source.optimizer else ("params", "model_state")
    checkpoints.check_whole(run, step, items)
    saved = _read(run, step, "params") | _read(run, None, "frozen")
    params = _take(state.params, saved, include, run)
    frozen = _take(state.frozen, saved, include, run)
    model_state = _take(state.model_state, _read(run, step, "model_state"), include, run)
    for pattern in include:
        if not any(re.match(pattern, path) for path in flatten(state.all_params())):
            raise UserError(f"config.init_from.include: {pattern!r} matches no parameter.")
    logging.info("Initial weights (%s) from %s, step %d.", list(include), run, step)
    if step == 0:
        logging.warning(
            "%s learned nothing before step 0; config.init_from.step chooses another checkpoint, "
            "of %s.",
            *(run, run_folder.steps(run)),
        )
    state = dataclasses.replace(state, params=params, frozen=frozen, model_state=model_state)
    if source.optimizer:
        # The moments of old and fresh parameters share one count of steps.
        if fresh := [p for p in flatten(params) if not any(re.match(i, p) for i in include)]:
            raise UserError(
                f"config.init_from.include={list(include)} leaves out {fresh[0]}, which has no "
                "moments to go on with; set config.init_from.optimizer=False."
            )
        other = checkpoints.restore_items(run, step, state, ("opt_state",))
        moments = with_moments(state.opt_state, other.opt_state)
        state = dataclasses.replace(state, opt_state=moments)
    return state


def check_weights(shapes: TrainState, source: InitConfig) -> None:
    """Refuses weights of another run that do not fit; reads no array.

    Args:
      shapes: of the state they are for.
      source: see `take_weights`.

    Raises:
      UserError: see `take_weights`.
    """
    step = run_folder.resolve_step(source.run, source.step)
    saved: dict[str, Any] = {}
    for folder in (_folder(source.run, step, "params"), _folder(source.run, None, "frozen")):
        if folder.exists():
            with ocp.StandardCheckpointer() as checkpointer:
                saved |= flatten(checkpointer.metadata(folder).item_metadata.tree)
    params = flatten(shapes.all_params())
    for pattern in source.include:
        if not any(re.match(pattern, path) for path in params):
            raise UserError(f"config.init_from.include: {pattern!r} matches no parameter.")
    for path, leaf in params.items():
        if any(re.match(pattern, path) for pattern in source.include):
            _check_leaf(path, leaf, saved, source.run)


def split_paths(source: InitConfig) -> tuple[list[str], list[str]]:
    """Returns the paths of another run's parameters that `include` takes, and the others.

    Raises:
      UserError: there is no such run or checkpoint.
    """
    step = run_folder.resolve_step(source.run, source.step)
    taken: list[str] = []
    others: list[str] = []
    for folder in (_folder(source.run, step, "params"), _folder(source.run, None, "frozen")):
        if folder.exists():
            with ocp.StandardCheckpointer() as checkpointer:
                paths = flatten(checkpointer.metadata(folder).item_metadata.tree)
            for path in paths:
                is_taken = any(re.match(pattern, path) for pattern in source.include)
                (taken if is_taken else others).append(path)
    return taken, others


def _read(run: str, step: int | None, item: str) -> dict[str, np.ndarray]:
    return flatten(checkpoints.read_tree(run, step, item))


def _folder(run: str, step: int | None, item: str) -> epath.Path:
    root = buckets.absolute(run)
    return root / item if step is None else root / "checkpoints" / str(step) / item


def _check_leaf(path: str, leaf: Any, source: Mapping[str, Any], run: str) -> None:
    if path not in source:
        raise UserError(
            f"{run} has no {path}; narrow config.init_from.include if it should start fresh."
        )
    if tuple(source[path].shape) != tuple(leaf.shape):
        raise UserError(f"{path} is {leaf.shape} here but {source[path].shape} in {run}.")


def _take(
    target: Any, source: Mapping[str, np.ndarray], include: Sequence[str], run: str
) -> dict[str, Any]:
    def take(keys: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        path = jax.tree_util.keystr(keys, simple=True, separator="/")
        # Running statistics go with the part that they belong to.
        part = path.replace("/batch_stats/", "/", 1)
        if not any(re.match(pattern, part) for pattern in include):
            return leaf
        _check_leaf(path, leaf, source, run)
        return jax.device_put(source[path].astype(leaf.dtype), leaf.sharding)

    return jax.tree_util.tree_map_with_path(take, target)
