"""Similarity graph reasoning, SGR, and similarity attention filtration, SAF.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), and the
authors' code, Paranioar/SGRAF. Both compare a text with an image by vectors: of the whole items,
and of each word with regions (section 3.2).
"""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.core.config import setting
from xmodal.core.mesh import replicated
from xmodal.similarity import token_sets
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.interface import LateInteraction, PairCost, Params
from xmodal.similarity.tiles import join, split
from xmodal.similarity.token_sets import (
    TokenItems,
    apply_linear,
    einsum,
    init_linear,
    masked_softmax,
    matmul,
    unit,
)
from xmodal.similarity.vector_similarities import read_vectors

_LAYERS = ("query", "key", "output")  # Of a step of SGR.
_EPSILON, _MOMENTUM = 1e-5, 0.1  # torch's batch normalization.
_AT_ONCE = 4  # Captions whose statistics are computed together.
_STATISTICS = ("gate_mean", "gate_variance")


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
        attended = einsum("lrmt,lrw->lmtw", weights, left["tokens"])
        local = jnp.square(attended - right["tokens"][None])
        whole = jnp.square(left["vector"][:, None] - right["vector"][None])
        nodes = [
            apply_linear(params["global"], whole)[:, :, None],
            apply_linear(params["local"], local),
        ]
        real = jnp.pad(right["mask"], ((0, 0), (1, 0)), constant_values=1.0)[None]
        return unit(jnp.concatenate(nodes, axis=2)), real

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


@dataclasses.dataclass(frozen=True)
class Sgr(Comparing):
    """Passes messages between the comparisons of a pair, and reads the score from the global one.

    In each step (section 3.3), every comparison becomes ReLU(output(mean of all comparisons)),
    weighted by the softmax of query(x_i).key(x_j). That is x_i M x_j + m.x_j and a term without j,
    so one product replaces two; the biases of the keys have no gradient, and that of the authors'
    code is rounding. The last step is computed for the global comparison only.

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


@dataclasses.dataclass(frozen=True)
class Saf(Comparing):
    """Sums the comparisons of a pair with gates between 0 and 1, and reads the score from the sum.

    Section 3.4. The authors normalize the logits of the gates over a batch, for each caption by its
    own mean and variance over all images and comparisons. `gate_norm` is

    - `none`: no normalization, so that in training, too, the score of a pair depends on nothing
      else. Costs nothing.
    - `batch`: as the authors' code. Training uses the statistics of each caption, from one more
      pass over all pairs; evaluation uses running ones. That code updates them caption by caption,
      the longest first, with a momentum of 0.1: after a step, they describe the last and shortest
      20 captions or so.

    Parameters: those of `Comparing`; the linear layer `gate`; and with `gate_norm="batch"`
    `gate_norm`, whose `scale` and `bias` are learned, and whose `mean` and `variance` are the
    running statistics, which no gradient changes.

    Attributes:
      gate_norm: see above.
    """

    gate_norm: str = setting("none", one_of=("none", "batch"))

    def init_combination(self, key: jax.Array) -> dict[str, Any]:
        """See `Comparing`."""
        params: dict[str, Any] = {"gate": init_linear(key, self.width, 1)}
        if self.gate_norm == "batch":
            start = {"scale": 1.0, "bias": 0.0, "mean": 0.0, "variance": 1.0}
            params["gate_norm"] = {name: jnp.full((1,), value) for name, value in start.items()}
        return params

    def prepare(self, params: Params, embedding: Embedding) -> TokenItems:
        """See `Comparing`; with `gate_norm="batch"` also statistics, running or of `observe`."""
        items = super().prepare(params, embedding)
        if "gate_norm" not in params:
            return items
        size = items["mask"].shape[0]
        running = [params["gate_norm"][name] for name in ("mean", "variance")]
        return items | {
            name: embedding.extras.get(name, jnp.broadcast_to(jax.lax.stop_gradient(each), size))
            for name, each in zip(_STATISTICS, running, strict=True)
        }

    def observe(
        self, params: Params, left: Embedding, right: Embedding, mesh: Mesh | None = None
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """See `LateInteraction`."""
        if self.gate_norm == "none":
            return {}, {}
        images, captions = self.prepare(params, left), self.prepare(params, right)
        if mesh is not None and mesh.size > 1:
            # Once: they are visited one after the other.
            captions = jax.lax.with_sharding_constraint(captions, replicated(mesh))

        @jax.checkpoint
        def describe(some: TokenItems) -> tuple[jax.Array, jax.Array]:
            nodes, real = self.compare(params, images, some)
            gates = apply_linear(params["gate"], nodes)[..., 0]  # [L, M, 1 + T]
            real = jnp.broadcast_to(real, gates.shape)
            mean = jnp.sum(gates * real, axis=(0, 2)) / jnp.sum(real, axis=(0, 2))
            offsets = jnp.square(gates - mean[:, None]) * real
            return mean, jnp.sum(offsets, axis=(0, 2)) / jnp.sum(real, axis=(0, 2))

        size, rows = captions["mask"].shape[0], images["mask"].shape[0]
        mean, variance = join(jax.lax.map(describe, split(captions, _AT_ONCE)), size)
        counts = rows * (1 + jnp.sum(captions["mask"], axis=1))
        unbiased = variance * counts / jnp.maximum(counts - 1, 1)
        order = jnp.argsort(-counts, stable=True)
        running = {
            name: _update(params["gate_norm"][name], values[order])
            for name, values in (("mean", mean), ("variance", unbiased))
        }
        return dict(zip(_STATISTICS, (mean, variance), strict=True)), {"gate_norm": running}

    def combine(
        self, params: Params, nodes: jax.Array, real: jax.Array, right: TokenItems
    ) -> jax.Array:
        """See `Comparing`."""
        gates = apply_linear(params["gate"], nodes)[..., 0]
        if self.gate_norm == "batch":
            mean, variance = (right[name][:, None] for name in _STATISTICS)
            gates, norm = (gates - mean) * jax.lax.rsqrt(variance + _EPSILON), params["gate_norm"]
            gates = gates * norm["scale"] + norm["bias"]
        gates = jax.nn.sigmoid(gates) * real
        gates = gates / (jnp.sum(gates, axis=-1, keepdims=True) + 1e-8)
        return unit(einsum("lmt,lmts->lms", gates, nodes))

    def combination_cost(self, nodes: int) -> tuple[int, int]:
        """See `Comparing`."""
        return 3 * nodes * self.width, 0


def _update(running: jax.Array, values: jax.Array) -> jax.Array:
    """Returns a running statistic [1] after one update with every value [M], in their order."""
    keep = 1 - _MOMENTUM
    weights = _MOMENTUM * keep ** jnp.arange(len(values) - 1, -1, -1, dtype=jnp.float32)
    return jax.lax.stop_gradient(keep ** len(values) * running + jnp.sum(weights * values))
