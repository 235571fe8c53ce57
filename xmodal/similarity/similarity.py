"""One configured similarity with its parameters."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import check_keys, lookup, read, setting
from xmodal.core.errors import UserError
from xmodal.similarity import vector_similarities, vectors
from xmodal.similarity.interface import LateInteraction, PairCost, Prepared, SimilarityFunction
from xmodal.similarity.scan import Scan
from xmodal.similarity.sgraf import Saf, Sgr
from xmodal.similarity.tiles import join, split

SIMILARITIES: dict[str, type[SimilarityFunction]] = {
    "dot": vector_similarities.Dot,
    "cosine": vector_similarities.Cosine,
    "euclidean": vector_similarities.Euclidean,
    "order": vector_similarities.Order,
    "max_cosine": vector_similarities.MaxCosine,
    "match_probability": vector_similarities.MatchProbability,
}
"""Similarities of vectors; their fields are numbers learned with the model."""

LATE_INTERACTIONS: dict[str, type[LateInteraction]] = {"saf": Saf, "scan": Scan, "sgr": Sgr}
"""Similarities of token sets."""

# Parameters that every similarity can have; ranking ignores both.
_SCALING = ("log_scale", "bias")


@dataclasses.dataclass(frozen=True)
class SimilarityConfig:
    """Keywords of every similarity.

    Attributes:
      name: a key of `SIMILARITIES` or `LATE_INTERACTIONS`.
      field: array of an embedding to compare: `vector`, or an extra such as `mean`.
      temperature: divides every score in losses; 1 in Crisscrossed Captions. A model trained from
        scratch needs initial logits with about unit spread: near sqrt(D) for dot products, 0.05 to
        0.1 for cosines.
      learned_temperature: whether the logarithm of 1 / temperature is learned (CLIP, SigLIP).
      max_logit_scale: upper limit of 1 / temperature; 100 in CLIP. Every update brings a learned
        scale back to 1 to this limit, as CLIP does. None for no limit.
      bias: added to every scaled score; -10 in SigLIP. None means 0.
      learned_bias: whether the bias is learned.
    """

    name: str
    field: str = "vector"
    temperature: float = setting(1.0, above=0)
    learned_temperature: bool = False
    max_logit_scale: float | None = setting(None, above=0)
    bias: float | None = None
    learned_bias: bool = False


def select_field(embedding: Any, field: str) -> Any:
    """Returns one array of an `Embedding` by name; anything else is already an array."""
    if not hasattr(embedding, "vector"):
        return embedding
    if field == "vector":
        return embedding.vector
    known = {"vector": None, "log_sigma": embedding.log_sigma, **embedding.extras}
    return lookup("the field of a similarity", field, known)


@dataclasses.dataclass(frozen=True)
class Similarity:
    """One configured similarity, from `make_similarity`; equal configs give equal objects.

    Attributes:
      config: the keywords common to all similarities.
      function: a row of `SIMILARITIES` or `LATE_INTERACTIONS` with its own keywords.
    """

    config: SimilarityConfig
    function: SimilarityFunction

    @property
    def name(self) -> str:
        """The key of `SIMILARITIES` or `LATE_INTERACTIONS`."""
        return self.config.name

    @property
    def module(self) -> LateInteraction | None:
        """The function, if it is a row of `LATE_INTERACTIONS`."""
        return self.function if isinstance(self.function, LateInteraction) else None

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of the module; {} without one."""
        return {} if self.module is None else dataclasses.asdict(self.module)

    @property
    def of_products(self) -> bool:
        """Whether the score is an inner product of vectors of two items, or the largest one."""
        return self.function.inner_product or self.function.unit

    @property
    def symmetric(self) -> bool:
        """Whether exchanging the sides transposes the scores; if not, images are on the left."""
        return self.function.symmetric

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the learned numbers that ranking needs; () for a module, which has arrays."""
        if self.module is not None:
            return ()
        return tuple(field.name for field in dataclasses.fields(self.function))

    def init(
        self, key: jax.Array | None = None, left: Any = None, right: Any = None
    ) -> dict[str, Any]:
        """Returns the initial learned parameters, float32; {} if none are learned.

        Args:
          key: typed key; only a similarity with a module needs it and the items.
          left: items of the left side; only shapes matter.
          right: items of the right side.
        """
        if self.module is not None:
            for side in (left, right):
                jax.eval_shape(self.prepare, side)  # Refuses shapes.
        start = self.function.init(key, left, right)
        if self.config.learned_temperature:
            start["log_scale"] = -math.log(self.config.temperature)
        if self.config.learned_bias:
            start["bias"] = self.config.bias or 0.0
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), start)

    def clamp(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns learned parameters after an update, with the scale in 1 to `max_logit_scale`.

        All others, and all without a limit, are as they were.
        """
        clamped = dict(params)
        if self.config.max_logit_scale is not None and "log_scale" in params:
            limit = math.log(self.config.max_logit_scale)
            clamped["log_scale"] = jnp.clip(params["log_scale"], 0.0, limit)
        return clamped

    def prepare(self, embedding: Any, params: Mapping[str, Any] | None = None) -> Prepared:
        """Returns embeddings prepared for comparison: float32 arrays, items first.

        Copies of an item are prepared identically in all calls of one shape; a different N may
        change the last bit, see `scorer`.

        Args:
          embedding: an `Embedding`, or just its vectors, [N, D] or [N, K, D], if there is no
            module.
          params: learned parameters; only a module may need them.
        """
        if self.module is None:
            embedding = select_field(embedding, self.config.field)
        return self.function.prepare(params or {}, embedding)

    def prepare_both(
        self, left: Any, right: Any, params: Mapping[str, Any] | None = None
    ) -> tuple[Prepared, Prepared]:
        """Returns both sides prepared for `logits`, without a common offset of distances.

        See `prepare`.
        """
        if self.function.by_distance:
            sides = (select_field(each, self.config.field) for each in (left, right))
            left, right = vectors.centered(*sides)
        return self.prepare(left, params), self.prepare(right, params)

    def find_offset(self, *sides: np.ndarray) -> np.ndarray | None:
        """Returns the vector to subtract before `scorer` prepares others, see `find_offset`."""
        return vectors.find_offset(*sides) if self.function.by_distance else None

    def choose_precision(self, platform: str = "cpu") -> np.dtype:
        """Returns the type of scores on a platform: float64 for Euclidean distances on CPUs."""
        is_double = self.name == "euclidean" and platform == "cpu"
        return vectors.DOUBLE if is_double else vectors.SINGLE

    def place(
        self, *sides: np.ndarray, platform: str = "cpu", dtype: np.dtype | None = None
    ) -> list[np.ndarray]:
        """Returns vectors to prepare and score, in a precision and without their offset.

        The precision is that of `choose_precision` by default.
        """
        offset, dtype = self.find_offset(*sides), dtype or self.choose_precision(platform)
        return [vectors.remove_offset(side, offset, dtype) for side in sides]

    def score(
        self, left: Prepared, right: Prepared, params: Mapping[str, Any] | None = None
    ) -> jax.Array:
        """Returns the scores [L, R] to rank by, see `vector_similarities`.

        Temperature and bias are left out, since they do not change ranks.

        Args:
          left: prepared items; images, if the similarity is not symmetric.
          right: prepared items.
          params: learned parameters, like those of `init`.
        """
        return self.function.score(self.select_parameters(params or {}), left, right)

    def logits(self, left: Prepared, right: Prepared, params: Mapping[str, Any]) -> jax.Array:
        """Returns the differentiable, scaled and shifted scores [L, R] for losses."""
        own = self.select_parameters(params)
        return self._scale(self.function.logits(own, left, right), params)

    def paired(self, left: Prepared, right: Prepared, params: Mapping[str, Any]) -> jax.Array:
        """Returns the logits [B] of item i of `left` with item i of `right`."""
        if self.function.inner_product:
            return self._scale(jnp.sum(left * right, axis=-1), params)
        own = self.select_parameters(params)

        def compare(*pair: Prepared) -> jax.Array:
            first, second = jax.tree.map(lambda x: x[None], pair)
            return self.function.logits(own, first, second)[0, 0]

        compare_all = jax.vmap(compare)
        if self.module is not None:  # Its intermediate values are large.
            compare_all = jax.checkpoint(compare_all)
        return self._scale(compare_all(left, right), params)

    def cost(self, left: Prepared, right: Prepared) -> PairCost:
        """Returns the cost of one pair of prepared items in a block; only shapes matter."""
        return self.function.cost(left, right)

    def scorer(
        self, params: Mapping[str, Any] | None = None
    ) -> tuple[Callable[[jax.Array], Prepared], Callable[[Prepared, Prepared], jax.Array]]:
        """Returns `prepare` of vectors, and `score` with its parameters bound, for ranking.

        Items are prepared and pairs scored identically in every block, to the last bit.

        Equal similarities and numbers give equal `score` functions, so they can be static arguments
        of a jitted function without recompiling it.

        Args:
          params: learned parameters as numbers or scalar arrays.
        """
        numbers = {key: float(x) for key, x in self.select_parameters(params or {}).items()}
        # Without scaling, which ranking ignores, so that all temperatures share one compilation.
        plain = Similarity(SimilarityConfig(self.name), type(self.function)())
        return functools.partial(_prepare, plain), _Score(plain, tuple(numbers.items()))

    def select_parameters(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the learned parameters that ranking needs: all except temperature and bias."""
        if self.module is not None:
            return {key: value for key, value in params.items() if key not in _SCALING}
        missing = [key for key in self.parameters if key not in params]
        if missing:
            raise UserError(
                f"Similarity {self.name!r} needs {missing}: the model learns them, so they must "
                "come with its embeddings."
            )
        return {key: params[key] for key in self.parameters}

    def _scale(self, found: jax.Array, params: Mapping[str, jax.Array]) -> jax.Array:
        if self.config.learned_temperature:
            found = found * jnp.exp(params["log_scale"])
        elif self.config.temperature != 1.0:
            found = found / self.config.temperature
        if self.config.learned_bias:
            found = found + params["bias"]
        elif self.config.bias is not None:
            found = found + self.config.bias
        return found


def make_similarity(given: Mapping[str, Any], where: str = "config.model.similarity") -> Similarity:
    """Returns the similarity that a section of the config describes.

    Args:
      given: `name` and keywords: those of `SimilarityConfig`, and initial values of the
        similarity's own parameters (`match_scale` and `match_shift` of `match_probability`) or
        fields of its module (`width` of `saf`).
      where: the section as a user writes it, for errors.
    """
    if not isinstance(given, Mapping) or "name" not in given:
        raise UserError(f"{where} lacks a name; known: {sorted(SIMILARITIES | LATE_INTERACTIONS)}.")
    function = lookup(f"{where}.name", given["name"], {**SIMILARITIES, **LATE_INTERACTIONS})
    shared, own = (
        [field.name for field in dataclasses.fields(cls)] for cls in (SimilarityConfig, function)
    )
    check_keys(where, given, [*shared, *own], named=True)
    settings, options = ({k: given[k] for k in names if k in given} for names in (shared, own))
    config = read(SimilarityConfig, where, settings)
    if config.max_logit_scale is not None and not config.learned_temperature:
        raise UserError(
            f"{where}.max_logit_scale limits a learned temperature: set learned_temperature=True, "
            "or remove it."
        )
    return Similarity(config, read(function, where, options))


@functools.partial(jax.jit, static_argnums=0)
def _prepare(similarity: Similarity, vectors: jax.Array) -> Prepared:
    """Prepares vectors [N, D] or [N, K, D] with the same bits for blocks of any size.

    The order in which XLA sums over a vector depends on the shape of the whole array: every tile
    has the same one.
    """
    jax.eval_shape(similarity.prepare, vectors)  # Refuses shapes before they are tiled.
    prepared = jax.lax.map(similarity.prepare, split(vectors, vector_similarities.TILE))
    return join(prepared, vectors.shape[0])


# A dataclass, not a closure: equal ones are the same static argument of a jitted function.
@dataclasses.dataclass(frozen=True)
class _Score:
    """`Similarity.score` with its parameters bound."""

    similarity: Similarity
    parameters: tuple[tuple[str, float], ...]

    def __call__(self, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the scores [L, R] of prepared items."""
        return self.similarity.score(left, right, dict(self.parameters))
