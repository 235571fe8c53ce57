"""Stacked cross attention, SCAN.

Lee et al., "Stacked Cross Attention for Image-Text Matching" (ECCV 2018), sections 3.1 and 3.2, and
the authors' code, kuanghuei/SCAN.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.similarity import token_sets
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.interface import LateInteraction, PairCost, Params
from xmodal.similarity.token_sets import TokenItems

# (cosines [A, B, Q], mask of the queries [B, Q], scale) -> [A, B].
POOLS: dict[str, Callable[[jax.Array, jax.Array, float], jax.Array]] = {
    "lse": lambda x, mask, scale: jax.nn.logsumexp(scale * x, axis=-1, where=mask > 0) / scale,
    "mean": lambda x, mask, scale: jnp.sum(x * mask, axis=-1) / jnp.sum(mask, axis=-1),
    "max": lambda x, mask, scale: jnp.max(x, axis=-1, where=mask > 0, initial=-jnp.inf),
    "sum": lambda x, mask, scale: jnp.sum(x * mask, axis=-1),
}


@dataclasses.dataclass(frozen=True)
class Scan(LateInteraction):
    """The cosine of each token with the mean of the tokens it attends to, pooled over the tokens.

    It has no parameters. The mean c of the tokens x_j with weights a_j is never made: c.q is the
    sum of a_j x_j.q, and |c|^2 is a'Ga, where G are the products of the x_j.

    Pooling by `lse`, log(sum of exp(scale s)) / scale, is a sum, not a mean: more tokens score
    higher.

    Attributes:
      queries: modality whose tokens attend to those of the other: "text" is the paper's text-image
        formulation, "image" its image-text one.
      pool: a key of `POOLS`: the paper's LSE and AVG (`mean`), and the code's Max and Sum.
      pool_scale: lambda of LSE.
      attention_scale: lambda of the softmax; 9 for text queries in the paper, 4 for images.
      attention_norm: a key of `token_sets.NORMS`.
    """

    queries: str = setting("text", one_of=("text", "image"))
    pool: str = setting("lse", one_of=POOLS)
    pool_scale: float = setting(6.0, above=0)
    attention_scale: float = setting(9.0, above=0)
    attention_norm: str = setting("clipped_l2norm", one_of=token_sets.NORMS)

    def prepare(self, params: Params, embedding: Embedding) -> TokenItems:
        """See `SimilarityFunction`; `tokens`, `mask`, `gram`, and 1 / length of every token."""
        items = token_sets.read_tokens("scan", embedding)
        gram = token_sets.compute_gram(items["tokens"])
        squares = jnp.diagonal(gram, axis1=1, axis2=2)
        return items | {"gram": gram, "inverse_length": token_sets.inverse_length(squares)}

    def score(self, params: Params, left: TokenItems, right: TokenItems) -> jax.Array:
        """See `SimilarityFunction`."""
        context, queries = (left, right) if self.queries == "text" else (right, left)
        weights, products = token_sets.attend(
            context, queries, self.attention_scale, self.attention_norm
        )
        cosines = jnp.sum(weights * products, axis=1)  # [A, B, Q]
        lengths = token_sets.inverse_attended_lengths(weights, context["gram"])
        cosines *= lengths * queries["inverse_length"]
        # Without tokens, an item has a first one, which is zero, so that its scores are finite.
        is_empty = 1.0 - jnp.max(queries["mask"], axis=1)
        mask = queries["mask"].at[:, 0].add(is_empty)
        scores = POOLS[self.pool](cosines, mask, self.pool_scale)
        return scores if self.queries == "text" else scores.T

    def cost(self, left: TokenItems, right: TokenItems) -> PairCost:
        """See `SimilarityFunction`."""
        (_, regions, width), words = left["tokens"].shape, right["tokens"].shape[1]
        context = regions if self.queries == "text" else words
        # Float32 numbers alive at the peak of a gradient, as compiled for a CPU.
        numbers = 8.5 * words * regions
        return PairCost(bytes=4 * numbers, flops=2 * words * regions * (width + context))
