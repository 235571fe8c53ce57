"""What all parts of a model use: modes, devices, compute dtypes, unit vectors, tables of parts."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.core.config import read_named

Tree = dict[str, Any]
"""A nested plain dict of arrays."""
DTYPES: Mapping[str, DTypeLike] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
"""Compute dtypes by name; parameters are always float32."""


class Mode(enum.Enum):
    """A mode in which a part of a model runs.

    Attributes:
      EVALUATE: no part of the model is being trained.
      FROZEN: the rest of the model is being trained, but no parameter of this part is. The part
        computes as in evaluation, except for batch normalization with the policy "batch_frozen".
      TRAIN: the part is being trained.
    """

    EVALUATE = "evaluate"
    FROZEN = "frozen"
    TRAIN = "train"

    @property
    def drops(self) -> bool:
        """Whether values are dropped at random."""
        return self is Mode.TRAIN


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices that a model will run on.

    Attributes:
      count: devices that the batch is split over.
      platform: `cpu`, `gpu` or `tpu`; some layers have a faster implementation for one of them.
    """

    count: int = 1
    platform: str = "cpu"


ONE_CPU = Devices()


def l2_normalize(x: jax.Array, axis: int = -1) -> jax.Array:
    """Returns x [..., D] divided by its L2 norms along an axis; a norm of 0 has no effect."""
    squares = jnp.sum(jnp.square(x), axis=axis, keepdims=True)
    return x * jax.lax.rsqrt(jnp.maximum(squares, 1e-12))


class Row(NamedTuple):
    """One kind of part: the dataclass of its section, and the function that makes it."""

    config: type
    make: Callable[..., Any]


def make_part(
    where: str, section: Mapping[str, Any], table: Mapping[str, Row], *arguments: Any
) -> Any:
    """Returns the part that a section describes.

    Args:
      where: the section as a user writes it: `config.model.image.encoder`.
      section: `name`, a key of the table, and the keywords of that row.
      table: the kinds of parts.
      *arguments: passed to the row's function after the section.
    """
    row, config = read_named(where, section, table, lambda row: row.config)
    return row.make(config, *arguments)
