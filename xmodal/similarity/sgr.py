"""Similarity graph reasoning, SGR.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), section 3.3,
and the authors' code, Paranioar/SGRAF.
"""

import dataclasses
from typing import Any

import jax

from xmodal.core.config import setting
from xmodal.similarity.comparisons import Comparing
from xmodal.similarity.interface import Params
from xmodal.similarity.token_sets import (
    TokenItems,
    apply_linear,
    einsum,
    init_linear,
    masked_softmax,
    matmul,
)

_LAYERS = ("query", "key", "output")


@dataclasses.dataclass(frozen=True)
class Sgr(Comparing):
    """Passes messages between the comparisons of a pair, and reads the score from the global one.

    In each step, every comparison becomes ReLU(output(mean of all comparisons)), weighted by the
    softmax of query(x_i).key(x_j). That is x_i M x_j + m.x_j and a term without j, so one product
    replaces two; the biases of the keys have no gradient, and that of the authors' code is
    rounding. The last step is computed for the global comparison only.

    Parameters: those of `Comparing`, and `step1`, ... with the linear layers `query`, `key` and
    `output`.

    Attributes:
      steps: number of steps.
    """

    steps: int = setting(3, at_least=1)

    def init_combination(self, key: jax.Array) -> dict[str, Any]:
        """See `Comparing`."""
        keys = jax.random.split(key, (self.steps, len(_LAYERS)))
        return {
            f"step{number}": {
                name: init_linear(each, self.width, self.width)
                for name, each in zip(_LAYERS, row, strict=True)
            }
            for number, row in enumerate(keys, 1)
        }

    def combine(
        self, params: Params, nodes: jax.Array, real: jax.Array, right: TokenItems
    ) -> jax.Array:
        """See `Comparing`."""
        for number in range(1, self.steps + 1):
            step = params[f"step{number}"]
            asking = nodes if number < self.steps else nodes[:, :, :1]
            keys = step["key"]["kernel"].T
            layer = {name: matmul(array, keys) for name, array in step["query"].items()}
            logits = einsum("lmis,lmjs->lmij", apply_linear(layer, asking), nodes)
            means = matmul(masked_softmax(logits, real[:, :, None]), nodes)
            nodes = jax.nn.relu(apply_linear(step["output"], means))
        return nodes[:, :, 0]

    def combination_cost(self, nodes: int) -> tuple[int, int]:
        """See `Comparing`."""
        size, full = self.width, self.steps - 1
        products = 2 * full * nodes * size * (size + nodes) + 2 * size * (size + nodes)
        return 4 * self.steps * nodes * size, products
