"""Inception v3 without its auxiliary classifier.

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2015), with the
details of TF-slim, which keras.applications shares.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.basics import Mode
from xmodal.models.encoders import pixels as pixels_lib
from xmodal.models.encoders.encoder import ConvEncoder, ConvEncoderConfig, ConvNorm


@dataclasses.dataclass(frozen=True)
class InceptionConv:
    """A convolution, its batch normalization and a ReLU."""

    channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    padding: str = "SAME"


# Convolutions of one step have the same input; their outputs are concatenated, as are those of
# the branches of a block. The other steps are poolings, by name.
Step = InceptionConv | tuple[InceptionConv, InceptionConv] | str
Branch = tuple[Step, ...]


def _reduce(channels: int) -> InceptionConv:
    return InceptionConv(channels, (3, 3), 2, "VALID")


def _fork(channels: int) -> tuple[InceptionConv, InceptionConv]:
    return InceptionConv(channels, (1, 3)), InceptionConv(channels, (3, 1))


def _block_35(pooled: int) -> tuple[Branch, ...]:
    return (
        (InceptionConv(64),),
        (InceptionConv(48), InceptionConv(64, (5, 5))),
        (InceptionConv(64), InceptionConv(96, (3, 3)), InceptionConv(96, (3, 3))),
        ("average", InceptionConv(pooled)),
    )


def _block_17(inner: int) -> tuple[Branch, ...]:
    row, column = (1, 7), (7, 1)
    once = InceptionConv(inner, column), InceptionConv(inner, row)
    twice = (*once, InceptionConv(inner, column), InceptionConv(192, row))
    return (
        (InceptionConv(192),),
        (InceptionConv(inner), InceptionConv(inner, row), InceptionConv(192, column)),
        (InceptionConv(inner), *twice),
        ("average", InceptionConv(192)),
    )


_BLOCK_8 = (
    (InceptionConv(320),),
    (InceptionConv(384), _fork(384)),
    (InceptionConv(448), InceptionConv(384, (3, 3)), _fork(384)),
    ("average", InceptionConv(192)),
)

STEM: Mapping[str, InceptionConv | str] = {
    "conv_1a": _reduce(32),
    "conv_2a": InceptionConv(32, (3, 3), padding="VALID"),
    "conv_2b": InceptionConv(64, (3, 3)),
    "pool_3a": "max",
    "conv_3b": InceptionConv(80),
    "conv_4a": InceptionConv(192, (3, 3), padding="VALID"),
    "pool_5a": "max",
}
BLOCKS: Mapping[str, tuple[Branch, ...]] = {
    "mixed_5b": _block_35(32),
    "mixed_5c": _block_35(64),
    "mixed_5d": _block_35(64),
    "mixed_6a": (
        (_reduce(384),),
        (InceptionConv(64), InceptionConv(96, (3, 3)), _reduce(96)),
        ("max",),
    ),
    "mixed_6b": _block_17(128),
    "mixed_6c": _block_17(160),
    "mixed_6d": _block_17(160),
    "mixed_6e": _block_17(192),
    "mixed_7a": (
        (InceptionConv(192), _reduce(320)),
        (InceptionConv(192), InceptionConv(192, (1, 7)), InceptionConv(192, (7, 1)), _reduce(192)),
        ("max",),
    ),
    "mixed_7b": _BLOCK_8,
    "mixed_7c": _BLOCK_8,
}


def letter_steps(branch: Branch) -> list[list[tuple[str, InceptionConv | str]]]:
    """Returns the steps of a branch with a letter for each convolution and pooling: a, b, ..."""
    letters = iter("abcde")
    return [
        [(next(letters), part) for part in (step if isinstance(step, tuple) else (step,))]
        for step in branch
    ]


class Mixed(nn.Module):
    """Parallel branches, with convolutions called `branch0_a`, `branch0_b`, ..."""

    branches: tuple[Branch, ...]
    conv: ConvNorm

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, H', W', O]."""
        outputs = []
        for number, branch in enumerate(self.branches):
            x = inputs
            for step in letter_steps(branch):
                parts = [
                    _run(self.conv, x, part, f"branch{number}_{letter}", mode)
                    for letter, part in step
                ]
                x = jnp.concatenate(parts, axis=-1)
            outputs.append(x)
        return jnp.concatenate(outputs, axis=-1)


_POOLS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "max": lambda x: nn.max_pool(x, (3, 3), strides=(2, 2)),
    "average": lambda x: nn.avg_pool(x, (3, 3), padding="SAME", count_include_pad=False),
}


def _run(
    conv: ConvNorm, x: jax.Array, step: InceptionConv | str, name: str, mode: Mode
) -> jax.Array:
    """A convolution or pooling, called inside a compact method."""
    if isinstance(step, str):
        return _POOLS[step](x)
    return jax.nn.relu(
        conv(x, mode, name, step.channels, step.kernel, step.stride, padding=step.padding)
    )


class InceptionV3(ConvEncoder):
    """Pixels to the map of the last block; 2048 channels."""

    norm_options: ClassVar = {"use_scale": False}

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, H', W', 2048]; 8 x 8 cells of 299 x 299 pixels.

        Images have at least 75 x 75 pixels, as some convolutions have no padding.
        """
        conv, x = ConvNorm(self.norm, self.dtype), pixels
        for name, step in STEM.items():
            x = _run(conv, x, step, name, mode)
        block = self.recomputed(Mixed)
        for name, branches in BLOCKS.items():
            x = block(branches, conv, name=name)(x, mode)
        return x


@dataclasses.dataclass(frozen=True)
class InceptionV3Config(ConvEncoderConfig):
    """Settings of Inception v3; see `ConvEncoderConfig`."""

    normalization: str = setting("inception", one_of=pixels_lib.NORMALIZATIONS)
