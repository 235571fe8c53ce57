"""Weights from another run, selected by path, and the weighted mean of two models' weights.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), WiSE-FT: (1 - alpha) a + alpha b.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.sections import InitConfig, InterpolateConfig
from xmodal.train.tree import (
    TrainState,
    Tree,
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


def interpolate_weights(state: TrainState, config: InterpolateConfig) -> TrainState:
    """Returns a state whose weights and running statistics are (1 - alpha) a + alpha b.

    Args:
      state: a: a state whose weights all come from a source.
      config: names b, a run with the same parameters, and alpha.

    Returns:
      The state with the same sharding; its optimizer and step are a's.
    """
    step = run_folder.resolve_step(config.run, config.step)
    other = read_arrays(config.run, step)
    ours = state.flat_params() | flatten(state.model_state)
    if differences := describe_differences(ours, other):
        raise UserError(
            f"config.init_from.interpolate.run={config.run!r} is another model; {differences}"
        )
    logging.info("Initial weights: %g of %s, step %d.", config.alpha, config.run, step)
    second = replace_arrays(state, other)
    mixed: dict[str, Any] = {
        name: mix(getattr(state, name), getattr(second, name), config.alpha)
        for name in ("params", "frozen", "model_state")
    }
    return dataclasses.replace(state, **mixed)


def mix(first: Tree, second: Tree, alpha: float) -> Tree:
    """Returns (1 - alpha) a + alpha b of every array, with the sharding of the first tree.

    Integers, such as the concepts of words, are those of a: they follow from the vocabulary.
    """

    def mix_arrays(x: jax.Array, y: jax.Array) -> jax.Array:
        is_number = jnp.issubdtype(x.dtype, jnp.floating)
        return ((1 - alpha) * x + alpha * y).astype(x.dtype) if is_number else x

    def mean(a: Tree, b: Tree) -> Tree:
        return jax.tree.map(mix_arrays, a, b)

    shardings = jax.tree.map(lambda leaf: leaf.sharding, first)
    mixed: Tree = jax.jit(mean, out_shardings=shardings)(first, second)
    return mixed
