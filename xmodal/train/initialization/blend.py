"""A weighted mean of two models' weights.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), WiSE-FT: (1 - w) a + w b.
"""

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.checkpoint_shapes import read_shapes
from xmodal.train.initialization.from_run import read_param_shapes, read_params
from xmodal.train.sections import BlendConfig
from xmodal.train.step.state import TrainState, replace_arrays
from xmodal.train.tree import Tree, flatten

_WHERE = "config.init_from.blend.run"


def blend_weights(state: TrainState, blend: BlendConfig) -> TrainState:
    """Returns a state whose weights and running statistics are (1 - w) a + w b.

    Args:
      state: a: a state whose weights all come from a source.
      blend: names b, a run with the same parameters, and w.

    Returns:
      The state with the same sharding; its optimizer and step are a's.

    Raises:
      UserError: see `check_blend`.
    """
    check_blend(state, blend)
    step = run_folder.resolve_step(blend.run, blend.step)
    checkpoints.check_whole(blend.run, step, ("params", "model_state"))
    other = read_params(blend.run, step)
    logging.info("Initial weights: %g of %s, step %d.", blend.weight, blend.run, step)
    statistics = flatten(checkpoints.read_tree(blend.run, step, "model_state"))
    return TrainState(
        step=state.step,
        params=_mix(state.params, other, blend.weight),
        frozen=_mix(state.frozen, other, blend.weight),
        model_state=_mix(state.model_state, statistics, blend.weight),
        opt_state=state.opt_state,
    )


def check_blend(state: TrainState, blend: BlendConfig) -> None:
    """Raises an error if the other run has other parameters; reads no arrays.

    Args:
      state: the state of a, or its shapes.
      blend: see `blend_weights`.

    Raises:
      UserError: there is no such run or checkpoint; a parameter or running statistic is missing
        in one of the two models, or has another shape.
    """
    step = run_folder.resolve_step(blend.run, blend.step)
    theirs = read_param_shapes(blend.run, step)
    statistics = run_folder.step_folder(blend.run, step) / "model_state"
    theirs |= flatten(read_shapes(statistics)) if statistics.exists() else {}
    ours = flatten(state.all_params()) | flatten(state.model_state)
    for path in sorted(ours.keys() | theirs.keys()):
        if path not in theirs:
            raise UserError(f"{_WHERE}={blend.run!r} has no {path}: blend runs of one model.")
        if path not in ours:
            raise UserError(f"{_WHERE}={blend.run!r} has {path}, which this model lacks.")
        if tuple(ours[path].shape) != tuple(theirs[path].shape):
            raise UserError(
                f"{path} is {tuple(ours[path].shape)} here but {tuple(theirs[path].shape)} in "
                f"{_WHERE}={blend.run!r}."
            )


def _mix(tree: Tree, other: dict[str, np.ndarray], weight: float) -> Tree:
    return mix(tree, replace_arrays(tree, other), weight)


def mix(first: Tree, second: Tree, weight: float) -> Tree:
    """Returns (1 - weight) a + weight b of every array, with the sharding of the first tree.

    Integers, such as the concepts of words, are those of a: they follow from the vocabulary.
    """

    def mix_arrays(x: jax.Array, y: jax.Array) -> jax.Array:
        is_number = jnp.issubdtype(x.dtype, jnp.floating)
        return ((1 - weight) * x + weight * y).astype(x.dtype) if is_number else x

    def mean(a: Tree, b: Tree) -> Tree:
        return jax.tree.map(mix_arrays, a, b)

    shardings = jax.tree.map(lambda leaf: leaf.sharding, first)
    mixed: Tree = jax.jit(mean, out_shardings=shardings)(first, second)
    return mixed
