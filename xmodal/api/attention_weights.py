"""The weights of words and patches in a model's attention, for `Model`."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.core.errors import UserError
from xmodal.data.text.tokenizers import Tokenizer
from xmodal.similarity import Embedding


def compute_weights(
    model: Any,
    name: str,
    tokenizer: Tokenizer | None,
    side: str,
    params: Any,
    model_state: Any,
    columns: Mapping[str, jax.Array],
) -> Embedding:
    """Returns the weights of the items of a batch in place of their vectors.

    Args:
      model: see `model.Encoders`; that of a bundle has no weights.
      name: name of the model in messages.
      tokenizer: tokenizer of its texts.
      side: "image" or "text".
      params: see `model.Encoders`.
      model_state: see `model.Encoders`.
      columns: columns of the batch.

    Returns:
      Embeddings whose `vector` is [N, max_length] for texts, and [N, G * G] for images.

    Raises:
      UserError: there are no such weights.
    """
    if side == "image":
        attend = getattr(model, "attend", None)
        weights = attend and attend(side, params, model_state, columns)
        vector = _over_patches(weights, columns["image"], name)
    else:
        extras = model.embed(side, params, model_state, columns)[0].extras
        vector = _over_words(extras.get("attention"), tokenizer, name)
    return Embedding(vector)


def _over_words(weights: jax.Array | None, tokenizer: Tokenizer | None, name: str) -> jax.Array:
    if weights is None or weights.ndim != 2:
        raise UserError(
            f"The text side of {name} has no weights for single words; the head 'attention' has."
        )
    assert tokenizer is not None
    missing = tokenizer.max_length - weights.shape[1]  # Batches of short texts are shorter.
    return jnp.pad(weights, ((0, 0), (0, missing)))


def _over_patches(weights: jax.Array | None, images: jax.Array, name: str) -> jax.Array:
    if weights is None or weights.ndim != 2 or images.dtype != jnp.uint8:
        raise UserError(
            f"The image side of {name} has no weights for patches of a picture; a ViT with the "
            "head 'cls', and the heads 'multihead_attention_pool', 'attention_pool' and "
            "'attention' have, in a run or converted weights, not in a bundle."
        )
    # A class token, or the mean of all cells, may come first.
    cells = weights[:, weights.shape[1] - math.isqrt(weights.shape[1]) ** 2 :]
    return cells / jnp.sum(cells, axis=1, keepdims=True)
