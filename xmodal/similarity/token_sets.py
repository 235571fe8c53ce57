"""Common steps of similarities between two sets of tokens, and attention between them.

The attention of one item's tokens, the queries, to the tokens of another, its context: Lee et al.,
"Stacked Cross Attention for Image-Text Matching" (ECCV 2018), section 3.1, and the authors' code,
kuanghuei/SCAN. Arrays of pairs have the axes A and C, items that are contexts and their tokens, B
and Q, items with queries and their tokens: in this order, every product is one of matrices as they
are stored.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.core.errors import UserError
from xmodal.similarity.embedding import Embedding

TokenItems = dict[str, jax.Array]
"""Prepared items by name, such as `tokens` and `mask`, with items first."""

# Float32 throughout, as the authors computed, even where the default product is bfloat16 or TF32.
einsum = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)

# Squared lengths below this count as zero.
_SMALLEST_SQUARE = 1e-30


def read_tokens(name: str, embedding: Embedding) -> TokenItems:
    """Returns `tokens` [N, T, W], zero in the padding, and `mask` [N, T], both float32."""
    extras = getattr(embedding, "extras", {})
    if "tokens" not in extras or "mask" not in extras:
        raise UserError(
            f"Similarity {name!r} compares the tokens of images and texts, but these embeddings "
            "are only vectors; use a head that keeps tokens on both modalities: 'unit_tokens' or "
            "'global_attention'."
        )
    mask = jnp.asarray(extras["mask"])
    tokens = jnp.asarray(extras["tokens"], jnp.float32)
    # Selected, not multiplied: a padding token may be NaN.
    tokens = jnp.where(mask[..., None].astype(bool), tokens, 0.0)
    return {"tokens": tokens, "mask": mask.astype(jnp.float32)}


@jax.custom_jvp
def compute_gram(tokens: jax.Array) -> jax.Array:
    """Returns the inner products [N, T, T] of the tokens [N, T, W] of each item."""
    return einsum("ntw,nsw->nts", tokens, tokens)


@compute_gram.defjvp
def _move_gram(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """One product for both factors: the gradient is one array of the tokens' size, not two."""
    moved = einsum("ntw,nsw->nts", *tangents, *primals)
    return compute_gram(*primals), moved + moved.swapaxes(1, 2)


def inverse_length(squares: jax.Array) -> jax.Array:
    """Returns 1 / sqrt(squares); 0, with a zero gradient, where the squares are 0."""
    is_zero = squares < _SMALLEST_SQUARE
    return jnp.where(is_zero, 0.0, jax.lax.rsqrt(jnp.where(is_zero, 1.0, squares)))


def unit(x: jax.Array, axis: int = -1) -> jax.Array:
    """Returns x divided by its L2 norms along an axis; zero vectors stay, with a zero gradient."""
    return x * inverse_length(jnp.sum(jnp.square(x), axis=axis, keepdims=True))


def masked_softmax(logits: jax.Array, mask: jax.Array | None, axis: int = -1) -> jax.Array:
    """Returns the softmax over an axis where `mask` is 1 or True; zeros where nothing is.

    Without a mask, everything counts.
    """
    if mask is None:
        return jax.nn.softmax(logits, axis=axis)
    logits = jnp.where(mask > 0, logits, -jnp.inf)
    highest = jax.lax.stop_gradient(jnp.max(logits, axis=axis, keepdims=True))
    powers = jnp.exp(logits - jnp.where(jnp.isfinite(highest), highest, 0.0))
    return powers / jnp.maximum(jnp.sum(powers, axis=axis, keepdims=True), 1e-30)


def init_linear(key: jax.Array, inputs: int, outputs: int) -> dict[str, jax.Array]:
    """Returns a linear layer from U(+-sqrt(6 / (inputs + outputs))), with bias 0."""
    kernel = jax.nn.initializers.xavier_uniform()(key, (inputs, outputs), jnp.float32)
    return {"kernel": kernel, "bias": jnp.zeros((outputs,), jnp.float32)}


def apply_linear(layer: Any, x: jax.Array) -> jax.Array:
    """Returns x [..., inputs] through a layer of `init_linear`, [..., outputs]."""
    return matmul(x, layer["kernel"]) + layer["bias"]


def _clip(products: jax.Array) -> jax.Array:
    return jax.nn.leaky_relu(products, 0.1)


def _normalize(products: jax.Array) -> jax.Array:
    """Divides by the lengths over the queries, plus 1e-8 as in the authors' code.

    The 1e-8 changes the gradients of captions with one token, whose lengths may be tiny.
    """
    inverse = inverse_length(jnp.sum(jnp.square(products), axis=3, keepdims=True))
    return products * (inverse / (1 + 1e-8 * inverse))


# The padding of queries is zero, so it adds nothing to a norm over them.
NORMS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "clipped_l2norm": lambda products, mask: _normalize(_clip(products)),
    "l2norm": lambda products, mask: _normalize(products),
    "softmax": lambda products, mask: masked_softmax(products, mask[None, None], axis=3),
    "clipped": lambda products, mask: _clip(products),
    "no_norm": lambda products, mask: products,
}
"""Normalizations of the products [A, C, B, Q] with `mask` [B, Q] of the queries before the softmax,
by the name of the authors' option `raw_feature_norm`; norms are over the queries."""


def attend(
    context: TokenItems, queries: TokenItems, scale: float, norm: str = "clipped_l2norm"
) -> tuple[jax.Array, jax.Array]:
    """Returns the weights of the context for every query, and the inner products of the tokens.

    Both are [A, C, B, Q]; the weights sum to 1 over C.

    Args:
      context: `tokens` [A, C, W] and `mask` [A, C].
      queries: `tokens` [B, Q, W] and `mask` [B, Q].
      scale: the inverse temperature lambda.
      norm: key of `NORMS`.
    """
    products = einsum("acw,bqw->acbq", context["tokens"], queries["tokens"])
    logits, mask = NORMS[norm](products, queries["mask"]), context["mask"][:, :, None, None]
    return masked_softmax(scale * logits, mask, axis=1), products


def inverse_attended_lengths(weights: jax.Array, gram: jax.Array) -> jax.Array:
    """Returns 1 / |c| [A, B, Q] of the attended vectors c, without the vectors themselves.

    Args:
      weights: see `attend`.
      gram: the inner products [A, C, C] of the context's tokens.
    """
    moved = einsum("acbq,acd->adbq", weights, gram)
    return inverse_length(jnp.sum(weights * moved, axis=1))
