"""A weighted mean of two models' weights.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), WiSE-FT: (1 - alpha) a + alpha b.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging

from xmodal.core.errors import UserError
from xmodal.train.folder import run_folder
from xmodal.train.initialization.from_run import read_arrays
from xmodal.train.sections import InterpolateConfig
from xmodal.train.tree import TrainState, Tree, describe_differences, flatten, replace_arrays


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
