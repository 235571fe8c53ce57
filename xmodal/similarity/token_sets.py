"""Common steps of similarities between a set of regions and a set of words."""

from typing import Any

import jax
import jax.numpy as jnp

from xmodal.base.config import UserError
from xmodal.similarity.pair_module import Embedding

# Squared lengths below this count as zero.
_SMALLEST_SQUARE = 1e-30


def read_tokens(name: str, embedding: Embedding) -> dict[str, jax.Array]:
    """Returns `tokens` [N, T, W], zero in the padding, and `mask` [N, T], both float32.

    Raises:
      UserError: the embedding has no tokens; `name` is the similarity that the message names.
    """
    extras = getattr(embedding, "extras", {})
    if "tokens" not in extras or "mask" not in extras:
        raise UserError(
            f"Similarity {name!r} compares the tokens of images and texts, but these embeddings "
            "are only vectors; use a head that keeps tokens, such as 'global_attention', on both "
            "sides."
        )
    mask = extras["mask"]
    tokens = jnp.asarray(extras["tokens"], jnp.float32)
    # Selected, not multiplied: a padding token may be NaN.
    tokens = jnp.where(mask[..., None].astype(bool), tokens, 0.0)
    return {"tokens": tokens, "mask": mask.astype(jnp.float32)}


def unit(x: jax.Array, axis: int = -1) -> jax.Array:
    """Returns x divided by its L2 norms along an axis; zero vectors stay, with a zero gradient."""
    squares = jnp.sum(jnp.square(x), axis=axis, keepdims=True)
    is_zero = squares < _SMALLEST_SQUARE
    return x * jnp.where(is_zero, 0.0, jax.lax.rsqrt(jnp.where(is_zero, 1.0, squares)))


def attend_to_regions(
    regions: dict[str, jax.Array], words: dict[str, jax.Array], scale: float
) -> jax.Array:
    """Returns the mean region that every word attends to, float32 [L, M, T, W].

    Attention of SCAN (Lee et al. 2018, section 3.1, text-image) with `clipped_l2norm`: products
    through a leaky ReLU, divided by their norm over the words of a caption, times `scale`, softmax
    over regions.

    Args:
      regions: `tokens` [L, R, W] and `mask` [L, R].
      words: `tokens` [M, T, W] and `mask` [M, T].
      scale: the inverse temperature lambda.
    """
    products = jnp.einsum("lrw,mtw->lmtr", regions["tokens"], words["tokens"])
    products = jax.nn.leaky_relu(products, 0.1)
    # Padded words are zero vectors, so they add nothing to the norm.
    weights = masked_softmax(scale * unit(products, axis=2), regions["mask"][:, None, None])
    return jnp.einsum("lmtr,lrw->lmtw", weights, regions["tokens"])


def masked_softmax(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the softmax over the last axis where `mask` is 1; zeros where nothing is."""
    logits = jnp.where(mask > 0, logits, -jnp.inf)
    highest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    powers = jnp.exp(logits - jnp.where(jnp.isfinite(highest), highest, 0.0))
    return powers / jnp.maximum(jnp.sum(powers, axis=-1, keepdims=True), 1e-30)


def init_linear(key: jax.Array, inputs: int, outputs: int) -> dict[str, jax.Array]:
    """Returns a linear layer from U(+-sqrt(6 / (inputs + outputs))), with bias 0."""
    kernel = jax.nn.initializers.xavier_uniform()(key, (inputs, outputs), jnp.float32)
    return {"kernel": kernel, "bias": jnp.zeros((outputs,), jnp.float32)}


def apply_linear(layer: Any, x: jax.Array) -> jax.Array:
    """Returns x [..., inputs] through a layer of `init_linear`, [..., outputs]."""
    return x @ layer["kernel"] + layer["bias"]
