"""BERT, the optional adapter, pooling and projection as one tower."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.config import UserError, call, lookup
from xmodal.models.bert import Bert
from xmodal.models.embedding import Embedding
from xmodal.models.projection import project
from xmodal.models.text_adapter import TextAdapter, make_adapter
from xmodal.models.tower import DTYPES, ONE_CPU, Devices, Tower


def pool_first(tokens: jax.Array, mask: jax.Array) -> jax.Array:
    """The output at [CLS]: [N, T, W] -> [N, W]."""
    del mask
    return tokens[:, 0]


def pool_mean(tokens: jax.Array, mask: jax.Array) -> jax.Array:
    """The float32 mean of the real tokens' outputs: [N, T, W], bool [N, T] -> [N, W]."""
    weights = mask[..., None].astype(jnp.float32)
    return jnp.sum(tokens * weights, axis=1) / jnp.maximum(jnp.sum(weights, axis=1), 1.0)


POOLINGS = {"first": pool_first, "mean": pool_mean}


class TextTower(nn.Module):
    """Parameters: `bert`, `adapter` and `projection`, the last two where they exist."""

    bert: Bert
    adapter: TextAdapter | None
    pool: str
    projection: int | None

    @nn.compact
    def __call__(
        self, inputs: Mapping[str, jax.Array] | tuple[jax.Array, jax.Array], train: bool
    ) -> Embedding:
        """Embeds texts.

        Args:
          inputs: `text_ids` and `text_mask`, int [N, T], by name or in this order; or, by name,
            `text_features` [N, T, W] as `features` gave them for these texts, and `text_mask`.
          train: see `Tower.apply`.

        Returns:
          Embedding with `vector` [N, D].
        """
        if isinstance(inputs, Mapping) and "text_features" in inputs:
            mask = inputs["text_mask"] > 0
            tokens = self.bert(None, mask, train, features=inputs["text_features"])
        else:
            ids, mask = _check(inputs)
            tokens = self.bert(ids, mask, train)
        if self.adapter is not None:
            tokens = self.adapter(tokens, mask)
        vector = POOLINGS[self.pool](tokens, mask)
        return Embedding(project(vector, self.projection))

    def features(self, inputs: Mapping[str, jax.Array]) -> jax.Array:
        """What BERT's lower part gives, [N, T, W]; see `Bert`."""
        ids, mask = _check(inputs)
        return self.bert(ids, mask, False, stop=True)


def _check(
    inputs: Mapping[str, jax.Array] | tuple[jax.Array, jax.Array],
) -> tuple[jax.Array, jax.Array]:
    named = isinstance(inputs, Mapping)
    ids, mask = (inputs["text_ids"], inputs["text_mask"]) if named else inputs
    if ids.ndim != 2 or ids.shape != mask.shape or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(
            "a text tower takes int text_ids [N, T] and text_mask [N, T], got "
            f"{ids.dtype} {list(ids.shape)} and {mask.dtype} {list(mask.shape)}"
        )
    return ids, mask > 0


def make_tower(
    *,
    vocab_size: int = 30522,
    width: int = 768,
    depth: int = 12,
    lower_depth: int = 0,
    heads: int = 12,
    mlp_dim: int = 3072,
    max_positions: int = 512,
    dropout: float = 0.0,
    dtype: str = "float32",
    adapter: Mapping[str, Any] | None = None,
    pool: str = "first",
    projection: int | None = None,
    devices: Devices = ONE_CPU,
) -> Tower:
    """BERT as a tower of int text_ids and text_mask [N, T].

    Args:
      vocab_size: entries of the WordPiece vocabulary.
      width: of BERT's layers.
      depth: number of BERT's layers.
      lower_depth: how many of them have parameters of their own name, to be frozen apart from the
        others.
      heads: attention heads of BERT.
      mlp_dim: hidden width of BERT's feed-forward layers.
      max_positions: longest text.
      dropout: of BERT's embeddings, attention weights and layer outputs.
      dtype: compute dtype; parameters are float32.
      adapter: keywords of `text_adapter.make_adapter`, or None for BERT alone.
      pool: "first" position or "mean" over the real tokens.
      projection: width of a linear layer after the pooling, or None.
      devices: unused, nothing here depends on them.
    """
    del devices
    lookup("config.model.text.pool", pool, POOLINGS)
    if not 0 <= lower_depth < depth:
        raise UserError(
            f"config.model.text.lower_depth={lower_depth} must be at least 0 and less than the "
            f"depth of {depth}."
        )
    bert = Bert(
        vocab_size, width, depth, heads, mlp_dim, max_positions, dropout,
        lookup("config.model.text.dtype", dtype, DTYPES), lower_depth,
    )  # fmt: skip
    if adapter is not None:
        given = {"first_only": pool == "first", "dtype": dtype}
        adapter = call("config.model.text.adapter", make_adapter, adapter, **given)
    return Tower(TextTower(bert, adapter, pool, projection))
