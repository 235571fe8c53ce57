"""Attention of one item's tokens, the queries, to the tokens of another, its context.

Lee et al., "Stacked Cross Attention for Image-Text Matching" (ECCV 2018), section 3.1, and the
authors' code, kuanghuei/SCAN. Arrays of pairs have the axes A and C, items that are contexts and
their tokens, B and Q, items with queries and their tokens: in this order, every product is one of
matrices as they are stored.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from xmodal.similarity.token_sets import TokenItems, einsum, inverse_length, masked_softmax


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


def multiply(context: TokenItems, queries: TokenItems) -> jax.Array:
    """Returns the inner products [A, C, B, Q] of `tokens` [A, C, W] and [B, Q, W]."""
    return einsum("acw,bqw->acbq", context["tokens"], queries["tokens"])


def attend(
    products: jax.Array,
    context: TokenItems,
    queries: TokenItems,
    scale: float,
    norm: str = "clipped_l2norm",
) -> jax.Array:
    """Returns the weights [A, C, B, Q] of the context for every query; they sum to 1 over C.

    Args:
      products: see `multiply`.
      context: `mask` [A, C].
      queries: `mask` [B, Q].
      scale: the inverse temperature lambda.
      norm: key of `NORMS`.
    """
    mask = context["mask"][:, :, None, None]
    return masked_softmax(scale * NORMS[norm](products, queries["mask"]), mask, axis=1)


def inverse_attended_lengths(weights: jax.Array, gram: jax.Array) -> jax.Array:
    """Returns 1 / |c| [A, B, Q] of the attended vectors c, without the vectors themselves.

    Args:
      weights: see `attend`.
      gram: the inner products [A, C, C] of the context's tokens.
    """
    moved = einsum("acbq,acd->adbq", weights, gram)
    return inverse_length(jnp.sum(weights * moved, axis=1))
