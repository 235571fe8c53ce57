"""Similarity attention filtration, SAF.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), section 3.4,
and the authors' code, Paranioar/SGRAF.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.config import setting
from xmodal.core.mesh import replicated
from xmodal.similarity.comparisons import Comparing
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.interface import Params
from xmodal.similarity.tiles import join, split
from xmodal.similarity.token_sets import TokenItems, apply_linear, einsum, init_linear, unit

_EPSILON, _MOMENTUM = 1e-5, 0.1  # torch's batch normalization.
_AT_ONCE = 4  # Captions whose statistics are computed together.
_STATISTICS = ("gate_mean", "gate_variance")


@dataclasses.dataclass(frozen=True)
class Saf(Comparing):
    """Sums the comparisons of a pair with gates between 0 and 1, and reads the score from the sum.

    The authors normalize the logits of the gates over a batch, for each caption by its own mean and
    variance over all images and comparisons. `gate_norm` is

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
            gates = _normalize(gates, params["gate_norm"], right)
        gates = jax.nn.sigmoid(gates) * real
        gates = gates / (jnp.sum(gates, axis=-1, keepdims=True) + 1e-8)
        return unit(einsum("lmt,lmts->lms", gates, nodes))

    def combination_cost(self, nodes: int) -> tuple[int, int]:
        """See `Comparing`."""
        return 3 * nodes * self.width, 0


def _normalize(gates: jax.Array, norm: Mapping[str, jax.Array], right: TokenItems) -> jax.Array:
    mean, variance = (right[name][:, None] for name in _STATISTICS)
    return (gates - mean) * jax.lax.rsqrt(variance + _EPSILON) * norm["scale"] + norm["bias"]


def _update(running: jax.Array, values: jax.Array) -> jax.Array:
    """Returns a running statistic [1] after one update with every value [M], in their order."""
    keep = 1 - _MOMENTUM
    weights = _MOMENTUM * keep ** jnp.arange(len(values) - 1, -1, -1, dtype=jnp.float32)
    return jax.lax.stop_gradient(keep ** len(values) * running + jnp.sum(weights * values))
