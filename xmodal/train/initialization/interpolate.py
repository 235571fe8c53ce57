"""A weighted mean of two models' weights.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), WiSE-FT: (1 - alpha) a + alpha b.
"""

import dataclasses

import jax
import jax.numpy as jnp
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.initialization.from_run import read_array_shapes, read_arrays
from xmodal.train.sections import InterpolateConfig
from xmodal.train.step.state import TrainState, replace_arrays
from xmodal.train.tree import Tree, flatten


def interpolate_weights(state: TrainState, config: InterpolateConfig) -> TrainState:
    """Returns a state whose weights and running statistics are (1 - alpha) a + alpha b.

    Args:
      state: a: a state whose weights all come from a source.
      config: names b, a run with the same parameters, and alpha.

    Returns:
      The state with the same sharding; its optimizer and step are a's.
    """
    step = run_folder.resolve_step(config.run, config.step)
    _check_shapes(state, config, step)
    checkpoints.check_whole(config.run, step, ("params", "model_state"))
    other = read_arrays(config.run, step)
    logging.info("Initial weights: %g of %s, step %d.", config.alpha, config.run, step)
    params, frozen, model_state = (
        mix(tree, replace_arrays(tree, other), config.alpha)
        for tree in (state.params, state.frozen, state.model_state)
    )
    return dataclasses.replace(state, params=params, frozen=frozen, model_state=model_state)


def _check_shapes(state: TrainState, config: InterpolateConfig, step: int) -> None:
    """Raises an error if the other run has other parameters or statistics; reads no arrays."""
    ours, theirs = (
        {path: tuple(leaf.shape) for path, leaf in leaves.items()}
        for leaves in (
            flatten(state.all_params()) | flatten(state.model_state),
            read_array_shapes(config.run, step),
        )
    )
    for path in sorted(ours.keys() | theirs.keys()):
        here, there = (shapes.get(path, "missing") for shapes in (ours, theirs))
        if here != there:
            raise UserError(
                f"{path} is {here} here but {there} in config.init_from.interpolate.run="
                f"{config.run!r}: interpolate runs of one model."
            )


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
