"""Weights from another run, selected by path."""

from typing import Any

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.sections import InitConfig
from xmodal.train.tree import TrainState, check_patterns, describe_differences, matches, part_of

# No weights: copies of the towers, which follow those that are taken, and embeddings of items that
# another dataset may not have.
_STARTS_ANEW = ("momentum/", "tasks/[^/]+/module/queue/")


def load_weights(state: TrainState, source: InitConfig) -> dict[str, np.ndarray]:
    """Returns another run's weights and running statistics, by path.

    Momentum copies and their queues are left out: they start anew.

    Args:
      state: shapes of the state they are for.
      source: `config.init_from`: its `run` and `step`; `include` names the paths that are taken.
    """
    run, step = source.run, run_folder.resolve_step(source.run, source.step)
    check_patterns("config.init_from.include", source.include, state.flat_params())
    leaves = state.flat_params() | leaves_by_path(state.model_state)
    wanted = {
        path: leaf
        for path, leaf in leaves.items()
        if matches(source.include, part_of(path)) and not matches(_STARTS_ANEW, path)
    }
    params, statistics = map(leaves_by_path, checkpoints.read_model(run, step))
    taken = {path: array for path, array in (params | statistics).items() if path in wanted}
    if differences := describe_differences(wanted, taken):
        raise UserError(
            f"{run} does not fit the model; {differences}\nNarrow config.init_from.include if "
            "these should start anew."
        )
    logging.info("Initial weights (%s) from %s, step %d.", list(source.include), run, step)
    return taken


def load_moments(state: TrainState, source: InitConfig) -> Any:
    """Returns Adam's moments of another run; the skip rule and the schedule start over.

    Args:
      state: shapes of the state they are for.
      source: see `load_weights`.
    """
    # The moments of old and new parameters share one step count.
    fresh = [path for path in leaves_by_path(state.params) if not matches(source.include, path)]
    if fresh:
        raise UserError(
            f"config.init_from.include={list(source.include)} leaves out {fresh[0]}, which has no "
            "moments to continue with; set config.init_from.optimizer=False."
        )
    step = run_folder.resolve_step(source.run, source.step)
    return checkpoints.restore_moments(source.run, step, state.opt_state["moments"])


def find_taken(source: InitConfig) -> list[str]:
    """Returns the paths of another run's parameters that `include` takes."""
    step = run_folder.resolve_step(source.run, source.step)
    folders = (
        run_folder.step_folder(source.run, step) / "params",
        run_folder.frozen_folder(source.run),
    )
    paths = [path for folder in folders for path in leaves_by_path(checkpoints.read_shapes(folder))]
    taken = [path for path in paths if matches(source.include, path)]
    if source.include and not taken:
        named = ", ".join(map(repr, source.include))
        raise UserError(f"config.init_from.include: {named} matches no parameter of {source.run}.")
    return taken
