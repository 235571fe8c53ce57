"""Vectors that compare a text with an image: of the whole items, and of each word with regions.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), section 3.2,
and the authors' code, Paranioar/SGRAF.
"""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import setting
from xmodal.similarity import token_sets
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.interface import LateInteraction, PairCost, Params
from xmodal.similarity.token_sets import TokenItems, apply_linear, init_linear
from xmodal.similarity.vector_similarities import read_vectors


@dataclasses.dataclass(frozen=True)
class Comparing(LateInteraction):
    """Scores a pair by vectors that compare its parts; a subclass combines them into one.

    A comparison of two vectors is a unit vector of `width` numbers: a linear layer of their squared
    differences. Words are compared with the mean of the regions that they attend to.

    Losses get the sigmoid of the score, as in the paper; ranking uses its logit, since the sigmoid
    rounds high scores to 1.

    Parameters: the linear layers `local` and `global` (the comparisons), and `score`.

    Attributes:
      width: S, width of a comparison.
      attention_scale: lambda of `token_sets.attend`.
    """

    width: int = setting(256, at_least=1)
    attention_scale: float = setting(9.0, above=0)

    def init(self, key: jax.Array, left: Embedding, right: Embedding) -> dict[str, Any]:
        """See `SimilarityFunction`."""
        tokens, vector = left.extras["tokens"].shape[-1], left.vector.shape[-1]
        keys = jax.random.split(key, 4)
        return {
            "local": init_linear(keys[0], tokens, self.width),
            "global": init_linear(keys[1], vector, self.width),
            "score": init_linear(keys[3], self.width, 1),
            **self.init_combination(keys[2]),
        }

    @abc.abstractmethod
    def init_combination(self, key: jax.Array) -> dict[str, Any]:
        """Returns the parameters of `combine`."""

    def prepare(self, params: Params, embedding: Embedding) -> TokenItems:
        """See `SimilarityFunction`; `tokens`, `mask`, `gram` and the global `vector`."""
        name = type(self).__name__.lower()
        items = token_sets.read_tokens(name, embedding)
        gram = token_sets.compute_gram(items["tokens"])
        return items | {"gram": gram, "vector": read_vectors(name, embedding.vector)}

    def compare(
        self, params: Params, left: TokenItems, right: TokenItems
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the comparisons [L, M, 1 + T, S], that of the global vectors first.

        The second result, [1, M, 1 + T], is 0 in the padding.
        """
        weights, _ = token_sets.attend(left, right, self.attention_scale)
        # Scaled here, so that the large array of attended vectors is visited once.
        weights *= token_sets.inverse_attended_lengths(weights, left["gram"])[:, None]
        attended = token_sets.einsum("lrmt,lrw->lmtw", weights, left["tokens"])
        local = jnp.square(attended - right["tokens"][None])
        whole = jnp.square(left["vector"][:, None] - right["vector"][None])
        nodes = [
            apply_linear(params["global"], whole)[:, :, None],
            apply_linear(params["local"], local),
        ]
        real = jnp.pad(right["mask"], ((0, 0), (1, 0)), constant_values=1.0)[None]
        return token_sets.unit(jnp.concatenate(nodes, axis=2)), real

    @abc.abstractmethod
    def combine(
        self, params: Params, nodes: jax.Array, real: jax.Array, right: TokenItems
    ) -> jax.Array:
        """Returns one vector [L, M, S] of the comparisons of each pair, see `compare`."""

    def score(self, params: Params, left: TokenItems, right: TokenItems) -> jax.Array:
        """See `SimilarityFunction`."""
        result = self.combine(params, *self.compare(params, left, right), right)
        return apply_linear(params["score"], result)[..., 0]

    def logits(self, params: Params, left: TokenItems, right: TokenItems) -> jax.Array:
        """See `SimilarityFunction`; in (0, 1)."""
        return jax.nn.sigmoid(self.score(params, left, right))

    def rescale(self, scores: np.ndarray) -> np.ndarray:
        """See `SimilarityFunction`; in (0, 1)."""
        # exp(-x) itself overflows from x = -710 on.
        return np.exp(-np.logaddexp(0.0, -np.asarray(scores, np.float64)))

    @abc.abstractmethod
    def combination_cost(self, nodes: int) -> tuple[int, int]:
        """Returns the numbers in memory and the multiplications of `combine`, see `cost`."""

    def cost(self, left: TokenItems, right: TokenItems) -> PairCost:
        """See `SimilarityFunction`."""
        (_, regions, width), words = left["tokens"].shape, right["tokens"].shape[1]
        # Float32 numbers alive at the peak of a gradient, as compiled for a CPU.
        numbers, products = self.combination_cost(words + 1)
        numbers += 3 * words * regions + 4 * words * width
        products += words * regions * (2 * width + regions) + (words + 1) * width * self.width
        return PairCost(bytes=4 * numbers, flops=2 * products)
