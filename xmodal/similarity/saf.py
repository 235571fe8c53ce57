"""Similarity attention filtration, SAF.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), sections 3.2
and 3.4, and the authors' code, Paranioar/SGRAF.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.base.config import setting
from xmodal.similarity.pair_module import Cost, Embedding, Params
from xmodal.similarity.token_sets import (
    apply_linear,
    attend_to_regions,
    init_linear,
    read_tokens,
    unit,
)
from xmodal.similarity.vectors import one_vector

_NAME = "saf"

Items = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Saf:
    """Compares each word with the regions it attends to, and weights the comparisons.

    A comparison of two vectors is a unit vector of `width` numbers: a linear layer of their squared
    differences. Those of the words and one of the global vectors are summed with gates between 0
    and 1, and a linear layer reads the score from the sum.

    The authors normalize the gates' logits over the batch, separately for each caption, and in
    evaluation by running statistics. Here they are not normalized, so that the score of a pair
    does not depend on other pairs; with the running statistics folded into the layer `gate`,
    scores are those of the authors' code in evaluation.

    Losses get the sigmoid of the score, as in the paper; ranking uses its logit, since the sigmoid
    rounds high scores to 1.

    Parameters: the linear layers `local` and `global` (the comparisons), `gate` and `score`.

    Attributes:
      width: S, width of a comparison.
      attention_scale: lambda of `token_sets.attend_to_regions`.
    """

    width: int = setting(256, at_least=1)
    attention_scale: float = setting(9.0, above=0)

    def init(self, key: jax.Array, left: Embedding, right: Embedding) -> dict[str, Any]:
        """See `PairModule`."""
        del right
        tokens, vector = left.extras["tokens"].shape[-1], left.vector.shape[-1]
        keys = jax.random.split(key, 4)
        return {
            "local": init_linear(keys[0], tokens, self.width),
            "global": init_linear(keys[1], vector, self.width),
            "gate": init_linear(keys[2], self.width, 1),
            "score": init_linear(keys[3], self.width, 1),
        }

    def prepare(self, params: Params, embedding: Embedding) -> Items:
        """See `PairModule`; float32 `tokens`, `mask` and the global `vector`."""
        del params
        found = read_tokens(_NAME, embedding)
        return found | {"vector": one_vector(_NAME, embedding.vector)}

    def score(self, params: Params, left: Items, right: Items) -> jax.Array:
        """See `PairModule`."""
        attended = unit(attend_to_regions(left, right, self.attention_scale))
        local = jnp.square(attended - right["tokens"][None])
        whole = jnp.square(left["vector"][:, None] - right["vector"][None])
        nodes = jnp.concatenate(
            [
                unit(apply_linear(params["global"], whole))[:, :, None],
                unit(apply_linear(params["local"], local)),
            ],
            axis=2,
        )  # [L, M, 1 + T, S]
        real = jnp.pad(right["mask"], ((0, 0), (1, 0)), constant_values=1.0)[None]
        gates = jax.nn.sigmoid(apply_linear(params["gate"], nodes)[..., 0]) * real
        gates = gates / (jnp.sum(gates, axis=-1, keepdims=True) + 1e-8)
        result = unit(jnp.einsum("lmt,lmts->lms", gates, nodes))
        return apply_linear(params["score"], result)[..., 0]

    def logits(self, params: Params, left: Items, right: Items) -> jax.Array:
        """See `PairModule`; in (0, 1)."""
        return jax.nn.sigmoid(self.score(params, left, right))

    def cost(self, left: Items, right: Items) -> Cost:
        """See `PairModule`."""
        (_, regions, width), words = left["tokens"].shape, right["tokens"].shape[1]
        nodes = words + 1
        # Float32 numbers alive at the peak of a gradient, as compiled for a CPU.
        numbers = 3 * words * regions + 4 * words * width + 3 * nodes * self.width
        products = 2 * words * regions * width + nodes * width * self.width
        return Cost(bytes=4 * numbers, flops=2 * products)
