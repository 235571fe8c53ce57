"""Heads without parameters."""

import dataclasses
import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.basics import Mode
from xmodal.models.features import Features, take_last
from xmodal.similarity.embedding import Embedding


def sum_tokens(features: Features) -> jax.Array:
    """Returns the float32 sum [N, W] of the real tokens."""
    return jnp.sum(features.real_tokens(), axis=1, dtype=jnp.float32)


def mean_tokens(features: Features) -> jax.Array:
    """Returns the float32 mean [N, W] of the real tokens; zeros where there are none."""
    if features.mask is None:
        return jnp.mean(features.tokens, axis=1, dtype=jnp.float32)
    return sum_tokens(features) / features.lengths()[:, None]


def max_tokens(features: Features) -> jax.Array:
    """Returns the float32 maximum [N, W] of the real tokens; zeros where there are none."""
    tokens = features.tokens.astype(jnp.float32)
    if features.mask is None:
        return jnp.max(tokens, axis=1)
    largest = jnp.max(tokens, axis=1, where=features.mask[..., None], initial=-jnp.inf)
    return jnp.where(jnp.any(features.mask, axis=1, keepdims=True), largest, 0)


def last_token(features: Features) -> jax.Array:
    """Returns the last real token [N, W]; the first of an item without any."""
    if "last" in features.extras:
        return features.extras["last"]
    return take_last(features.tokens, features.lengths())


def final_state(features: Features, where: str) -> jax.Array:
    """Returns the final state [N, S] of a recurrent encoder."""
    if "state" not in features.extras:
        raise UserError(f"{where} needs an encoder with a state, such as 'rnn'; use another one.")
    return features.extras["state"]


def check_fixed_number(features: Features, head: str) -> None:
    """Raises an error if the number of tokens varies."""
    if features.mask is not None:
        raise UserError(
            f"The head {head!r} reads a fixed number of tokens, but here it varies; use 'mean' or "
            "another head."
        )


@dataclasses.dataclass(frozen=True)
class NoConfig:
    """Settings of a head without settings."""


@dataclasses.dataclass(frozen=True)
class LastTokenConfig:
    """Settings of the head "lasttoken".

    Attributes:
      source: "tokens" for the output at the last real position, where the backward direction has
        read only one token; "state" for the final states of all directions.
    """

    source: str = setting("tokens", one_of=("tokens", "state"))


@dataclasses.dataclass(frozen=True)
class MaxConfig:
    """Settings of the head "max".

    Attributes:
      dropout: dropout rate of the maximum's values.
    """

    dropout: float = setting(0.0, at_least=0, below=1)


class Pooling(nn.Module):
    """Base of the heads that reduce all tokens to one vector; that of one token is the token."""

    def pool(self, features: Features) -> jax.Array:
        """Tokens [N, T, W] -> float32 vector [N, W]."""
        raise NotImplementedError

    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, W]."""
        return Embedding(self.pool(features))


class Mean(Pooling):
    """The mean of the real tokens."""

    pool = staticmethod(mean_tokens)


class Sum(Pooling):
    """The sum of the real tokens."""

    pool = staticmethod(sum_tokens)


class Max(Pooling):
    """The largest value of the real tokens, per channel."""

    config: MaxConfig

    pool = staticmethod(max_tokens)

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, W]."""
        dropout = nn.Dropout(self.config.dropout, deterministic=not mode.drops)
        return Embedding(dropout(self.pool(features)))


class Flatten(nn.Module):
    """All tokens concatenated, for maps of fixed size whose positions matter."""

    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, T * W]."""
        check_fixed_number(features, "flatten")
        # Not `len`: a bundle's number of items is a symbol.
        items, *shape = features.tokens.shape
        return Embedding(features.tokens.reshape(items, math.prod(shape)).astype(jnp.float32))


class Cls(Pooling):
    """The token at position 0, which is [CLS] for BERT."""

    pool = staticmethod(lambda features: features.tokens[:, 0].astype(jnp.float32))


class LastToken(nn.Module):
    """The end of a text, see `LastTokenConfig`."""

    config: LastTokenConfig

    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] or the extra `state` [N, S] -> vector [N, W] or [N, S]."""
        if self.config.source == "state":
            vector = final_state(features, "The head 'lasttoken' with source='state'")
        else:
            vector = last_token(features)
        return Embedding(vector.astype(jnp.float32))


class NoVector(nn.Module):
    """The head of a tower whose features only a cross-encoder reads: similarities are equal."""

    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vectors [N, 0]."""
        return Embedding(jnp.zeros((len(features.tokens), 0), jnp.float32))
