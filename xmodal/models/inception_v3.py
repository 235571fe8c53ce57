"""Inception v3 without its auxiliary classifier.

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2015), with the
details of TF-slim, which keras.applications shares.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.config import lookup
from xmodal.models import pixels
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.embedding import Embedding
from xmodal.models.projection import project
from xmodal.models.tower import DTYPES, ONE_CPU, Devices, Tower

# What the convolutions without padding need.
MIN_SIZE = 75

_CONV_INIT = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolution, its batch normalisation and a ReLU."""

    channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    padding: str = "SAME"


# Convolutions of one step see the same input; their outputs are concatenated, as are those of
# the branches of a block. The others are poolings, by name.
Step = Conv | tuple[Conv, Conv] | str
Branch = tuple[Step, ...]


def _reduce(channels: int, kernel: tuple[int, int] = (3, 3)) -> Conv:
    return Conv(channels, kernel, 2, "VALID")


def _fork(channels: int) -> tuple[Conv, Conv]:
    return Conv(channels, (1, 3)), Conv(channels, (3, 1))


def _block_35(pooled: int) -> tuple[Branch, ...]:
    return (
        (Conv(64),),
        (Conv(48), Conv(64, (5, 5))),
        (Conv(64), Conv(96, (3, 3)), Conv(96, (3, 3))),
        ("average", Conv(pooled)),
    )


def _block_17(inner: int) -> tuple[Branch, ...]:
    row, column = (1, 7), (7, 1)
    twice = (Conv(inner, column), Conv(inner, row), Conv(inner, column), Conv(192, row))
    return (
        (Conv(192),),
        (Conv(inner), Conv(inner, row), Conv(192, column)),
        (Conv(inner), *twice),
        ("average", Conv(192)),
    )


_BLOCK_8 = (
    (Conv(320),),
    (Conv(384), _fork(384)),
    (Conv(448), Conv(384, (3, 3)), _fork(384)),
    ("average", Conv(192)),
)

STEM: Mapping[str, Conv | str] = {
    "conv_1a": _reduce(32),
    "conv_2a": Conv(32, (3, 3), padding="VALID"),
    "conv_2b": Conv(64, (3, 3)),
    "pool_3a": "max",
    "conv_3b": Conv(80),
    "conv_4a": Conv(192, (3, 3), padding="VALID"),
    "pool_5a": "max",
}
BLOCKS: Mapping[str, tuple[Branch, ...]] = {
    "mixed_5b": _block_35(32),
    "mixed_5c": _block_35(64),
    "mixed_5d": _block_35(64),
    "mixed_6a": (
        (_reduce(384),),
        (Conv(64), Conv(96, (3, 3)), _reduce(96)),
        ("max",),
    ),
    "mixed_6b": _block_17(128),
    "mixed_6c": _block_17(160),
    "mixed_6d": _block_17(160),
    "mixed_6e": _block_17(192),
    "mixed_7a": (
        (Conv(192), _reduce(320)),
        (Conv(192), Conv(192, (1, 7)), Conv(192, (7, 1)), _reduce(192)),
        ("max",),
    ),
    "mixed_7b": _BLOCK_8,
    "mixed_7c": _BLOCK_8,
}


def letter_steps(branch: Branch) -> list[list[tuple[str, Conv | str]]]:
    """The steps of a branch with a letter for everything in them: a, b, ..., poolings too."""
    letters = iter("abcde")
    return [
        [(next(letters), part) for part in (step if isinstance(step, tuple) else (step,))]
        for step in branch
    ]


class Mixed(nn.Module):
    """Branches side by side. Their convolutions are called `branch0_a`, `branch0_b`, ..."""

    branches: tuple[Branch, ...]
    batch_groups: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: jax.Array, train: bool) -> jax.Array:
        """[B, H, W, I] -> [B, H', W', O]."""
        outputs = []
        for number, branch in enumerate(self.branches):
            x = inputs
            for step in letter_steps(branch):
                parts = [
                    _run(self, x, part, f"branch{number}_{letter}", train) for letter, part in step
                ]
                x = jnp.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
            outputs.append(x)
        return jnp.concatenate(outputs, axis=-1)


def _run(
    owner: "Mixed | InceptionV3", x: jax.Array, step: Conv | str, name: str, train: bool
) -> jax.Array:
    """A convolution or pooling, called inside a compact method of `owner`."""
    if step == "max":
        return nn.max_pool(x, (3, 3), strides=(2, 2))
    if step == "average":
        return nn.avg_pool(x, (3, 3), padding="SAME", count_include_pad=False)
    x = nn.Conv(
        step.channels, step.kernel, strides=step.stride, padding=step.padding,
        use_bias=False, kernel_init=_CONV_INIT, dtype=owner.dtype, name=name,
    )(x)  # fmt: skip
    norm = BatchNorm(owner.batch_groups, use_scale=False, name=f"{name}_norm")
    return jax.nn.relu(norm(x, train=train))


class InceptionV3(nn.Module):
    """Pixels to the pooled features of the last block, and a projection if asked for."""

    normalization: str
    batch_groups: int
    remat: bool
    dtype: DTypeLike
    projection: int | None

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> Embedding:
        """uint8 [B, H, W, 3] -> vector [B, D]."""
        x = pixels.normalize(images, self.normalization).astype(self.dtype)
        if min(images.shape[1:3]) < MIN_SIZE:
            raise ValueError(
                f"Inception v3 takes images of {MIN_SIZE} pixels or more, got {list(images.shape)}"
            )
        for name, step in STEM.items():
            x = _run(self, x, step, name, train)
        block = nn.remat(Mixed, static_argnums=(2,)) if self.remat else Mixed
        for name, branches in BLOCKS.items():
            x = block(branches, self.batch_groups, self.dtype, name=name)(x, train)
        vector = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return Embedding(project(vector, self.projection))


def make_tower(
    *,
    normalization: str = "inception",
    dtype: str = "float32",
    batch_norm: str = "global",
    remat: bool = False,
    projection: int | None = None,
    devices: Devices = ONE_CPU,
) -> Tower:
    """Inception v3 as a tower of uint8 images [B, H, W, 3] of 75 pixels or more; 2048 features.

    Args:
      normalization: of the pixels, see `pixels.normalize`.
      dtype: compute dtype; parameters and statistics are float32.
      batch_norm: statistics over the "global" batch or "per_device".
      remat: recompute every block in the backward pass instead of storing its inside.
      projection: width of a linear layer after the pooling; None for the pooled features.
      devices: their count is the number of groups of batch_norm="per_device".
    """
    counts = {"global": 1, "per_device": devices.count}
    lookup("config.model.image.normalization", normalization, pixels.NORMALIZATIONS)
    return Tower(
        InceptionV3(
            normalization=normalization,
            batch_groups=lookup("config.model.image.batch_norm", batch_norm, counts),
            remat=remat,
            dtype=lookup("config.model.image.dtype", dtype, DTYPES),
            projection=projection,
        )
    )
