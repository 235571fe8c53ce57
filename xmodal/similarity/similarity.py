"""One configured similarity with its parameters."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.base import config
from xmodal.base.config import UserError, check_keys, lookup, set_whole, setting
from xmodal.similarity.scores import TILE
from xmodal.similarity.table import SIMILARITIES, Kind
from xmodal.similarity.tiles import join, split
from xmodal.similarity.vectors import Prepared

# Parameters that every similarity can have; ranking ignores both.
_SCALING = ("log_scale", "bias")


@dataclasses.dataclass(frozen=True)
class SimilarityConfig:
    """Keywords of every similarity.

    Attributes:
      name: a key of `SIMILARITIES`.
      field: array of an embedding to compare: `vector`, or an extra such as `mean`.
      temperature: divides every score in losses; 1 in Crisscrossed Captions. A model trained from
        scratch needs initial logits with about unit spread: near sqrt(D) for dot products, 0.05 to
        0.1 for cosines.
      learned_temperature: whether the logarithm of 1 / temperature is learned (CLIP, SigLIP).
      max_scale: upper limit of 1 / temperature; 100 in CLIP. None for no limit.
      clamp: keep the limit as CLIP does: a gradient may raise the scale beyond it, and every update
        brings it back to 1 to `max_scale`. Otherwise no gradient raises a scale at its limit.
      bias: added to every scaled score; -10 in SigLIP. None means 0.
      learned_bias: whether the bias is learned.
    """

    name: str
    field: str = "vector"
    temperature: float = setting(1.0, above=0)
    learned_temperature: bool = False
    max_scale: float | None = setting(None, above=0)
    clamp: bool = False
    bias: float | None = None
    learned_bias: bool = False


def select_field(embedding: Any, field: str) -> Any:
    """Returns one array of an `Embedding` by name; anything else is already an array.

    Raises:
      UserError: the embedding has no such array.
    """
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
      initial: initial values of this similarity's own parameters, as (name, number) pairs.
    """

    config: SimilarityConfig
    initial: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The key of `SIMILARITIES`."""
        return self.config.name

    @property
    def inner_product(self) -> bool:
        """Whether the score is the inner product of prepared vectors [N, D]."""
        return self._kind.inner_product

    @property
    def symmetric(self) -> bool:
        """Whether exchanging the sides transposes the scores; if not, images are on the left."""
        return self._kind.symmetric

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the learned parameters that ranking needs."""
        return tuple(self._kind.parameters)

    @property
    def _kind(self) -> Kind:
        return SIMILARITIES[self.config.name]

    def init(self) -> dict[str, jax.Array]:
        """Returns the initial learned parameters, float32 scalars; {} if none are learned."""
        start = dict(self.initial)
        if self.config.learned_temperature:
            start["log_scale"] = -math.log(self.config.temperature)
        if self.config.learned_bias:
            start["bias"] = self.config.bias or 0.0
        return {name: jnp.asarray(value, jnp.float32) for name, value in start.items()}

    def limit(self, params: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns learned parameters that no gradient raises further once they are at `max_scale`.

        Call it once for all uses of the parameters in all losses: at the limit, it is the sign of
        the sum of their gradients that counts.
        """
        limited = dict(params)
        if self.config.max_scale is not None and not self.config.clamp:
            limited["log_scale"] = _stop_at(params["log_scale"], math.log(self.config.max_scale))
        return limited

    def clamp(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns learned parameters after an update, with the scale in 1 to `max_scale`.

        All others, and all if `config.clamp` is not set, are as they were.
        """
        clamped = dict(params)
        if self.config.clamp and self.config.max_scale is not None and "log_scale" in params:
            limit = math.log(self.config.max_scale)
            clamped["log_scale"] = jnp.clip(params["log_scale"], 0.0, limit)
        return clamped

    def prepare(self, embedding: Any) -> Prepared:
        """Returns embeddings prepared for comparison: float32 arrays, items first.

        Copies of an item are prepared identically in all calls of one shape; a different N may
        change the last bit, see `scorer`.

        Args:
          embedding: an `Embedding`, or just its vectors: [N, D] or [N, K, D].

        Raises:
          UserError: this similarity does not compare embeddings of this shape.
        """
        return self._kind.prepare(self.name, select_field(embedding, self.config.field))

    def score(
        self, left: Prepared, right: Prepared, params: Mapping[str, Any] | None = None
    ) -> jax.Array:
        """Returns the scores [L, R] to rank by, see `xmodal.similarity.scores`.

        Temperature and bias are left out, since they do not change ranks.

        Args:
          left: prepared items; images, if the similarity is not symmetric.
          right: prepared items.
          params: learned parameters, like those of `init`.
        """
        return self._kind.score(left, right, **self._own(params or {}))

    def logits(self, left: Prepared, right: Prepared, params: Mapping[str, jax.Array]) -> jax.Array:
        """Returns the differentiable, scaled and shifted scores [L, R] for losses."""
        return self._scale(self._kind.logits(left, right, **self._own(params)), params)

    def paired(self, left: Prepared, right: Prepared, params: Mapping[str, jax.Array]) -> jax.Array:
        """Returns the logits [B] of item i of `left` with item i of `right`."""
        if self.inner_product:
            products = jax.tree.map(jnp.multiply, left, right)
            return self._scale(jnp.sum(products, axis=-1), params)
        own = self._own(params)

        def compare(*pair: Prepared) -> jax.Array:
            one_item = jax.tree.map(lambda x: x[None], pair)
            return self._kind.logits(*one_item, **own)[0, 0]

        return self._scale(jax.vmap(compare)(left, right), params)

    def scorer(
        self, params: Mapping[str, Any] | None = None
    ) -> tuple[Callable[[Any], Prepared], Callable[[Prepared, Prepared], jax.Array]]:
        """Returns `prepare` and `score`, the latter with its parameters bound, for ranking.

        Items are prepared and pairs scored identically in every block, to the last bit.

        Equal similarities and numbers give equal functions, so they can be static arguments of a
        jitted function without recompiling it.

        Args:
          params: learned parameters as numbers or scalar arrays.

        Raises:
          UserError: a parameter is missing, unknown or not a finite number.
        """
        given = dict(params or {})
        check_keys(
            f"the parameters of similarity {self.name!r}", given, (*self.parameters, *_SCALING)
        )
        numbers = [
            (key, _number(f"{key} of similarity {self.name!r}", value))
            for key, value in self._own(given).items()
        ]
        # Without scaling, which ranking ignores, so that all temperatures share one compilation.
        plain = Similarity(SimilarityConfig(self.name, self.config.field))
        return _Prepare(plain), _Score(plain, tuple(numbers))

    def _own(self, params: Mapping[str, Any]) -> dict[str, Any]:
        missing = [key for key in self.parameters if key not in params]
        if missing:
            raise UserError(
                f"Similarity {self.name!r} needs {missing}: the model learns them, so they must "
                "come with its embeddings."
            )
        return {key: params[key] for key in self.parameters}

    def _scale(self, found: jax.Array, params: Mapping[str, jax.Array]) -> jax.Array:
        if self.config.learned_temperature:
            log_scale = params["log_scale"]
            if self.config.max_scale is not None:
                # The gradient passes here, and is limited once for all uses, by `limit`.
                excess = jnp.maximum(log_scale - math.log(self.config.max_scale), 0.0)
                log_scale = log_scale - jax.lax.stop_gradient(excess)
            found = found * jnp.exp(log_scale)
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
        similarity's own parameters (`match_scale` and `match_shift` of `match_probability`).
      where: the section as a user writes it, for errors.

    Raises:
      UserError: unknown name or keyword, or a number out of its range.
    """
    if not isinstance(given, Mapping) or "name" not in given:
        raise UserError(f"{where} lacks a name; known: {sorted(SIMILARITIES)}.")
    kind = lookup(f"{where}.name", given["name"], SIMILARITIES)
    shared = [field.name for field in dataclasses.fields(SimilarityConfig)]
    instead = set_whole(where, name=given["name"])
    check_keys(where, given, [*shared, *kind.parameters], instead=instead)
    settings = config.read(
        SimilarityConfig, where, {key: given[key] for key in shared if key in given}
    )
    _check_scale(where, settings)
    initial = {
        key: _number(f"{where}.{key}", given.get(key, start))
        for key, start in kind.parameters.items()
    }
    return Similarity(settings, tuple(initial.items()))


def _check_scale(where: str, settings: SimilarityConfig) -> None:
    if settings.max_scale is None:
        if settings.clamp:
            raise UserError(f"{where}.clamp needs a limit: set max_scale, 100 in CLIP.")
        return
    if not settings.learned_temperature:
        raise UserError(
            f"{where}.max_scale limits a learned temperature; set learned_temperature=True or "
            "remove it."
        )
    if 1 / settings.temperature > settings.max_scale:
        raise UserError(
            f"{where}.temperature={settings.temperature} starts at the scale "
            f"{1 / settings.temperature:g}, above max_scale={settings.max_scale:g}; raise one."
        )


def _number(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{what} must be a finite number, not {value!r}.")
    return number


@dataclasses.dataclass(frozen=True)
class _Prepare:
    similarity: Similarity

    def __call__(self, embedding: Any) -> Prepared:
        vectors = getattr(embedding, "vector", embedding)
        jax.eval_shape(self.similarity.prepare, vectors)  # Refuses shapes before they are tiled.
        return _prepare_tiles(self.similarity, vectors)


@dataclasses.dataclass(frozen=True)
class _Score:
    similarity: Similarity
    parameters: tuple[tuple[str, float], ...]

    def __call__(self, left: Prepared, right: Prepared) -> jax.Array:
        return self.similarity.score(left, right, dict(self.parameters))


@functools.partial(jax.jit, static_argnums=0)
def _prepare_tiles(similarity: Similarity, vectors: jax.Array) -> Prepared:
    """Returns `similarity.prepare(vectors)`, computed alike for blocks of any size.

    The order in which XLA sums over a vector depends on the shape of the whole array: every tile
    has the same one.
    """
    size = vectors.shape[0]
    tiles = split(vectors, TILE)
    return join(jax.lax.map(similarity.prepare, tiles), size)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _stop_at(value: jax.Array, limit: float) -> jax.Array:
    """Returns the value; from the limit on, a gradient that would raise it further is 0.

    A plain minimum has no gradient beyond the limit, so the value could never come back.
    """
    del limit
    return value


def _stop_at_forward(value: jax.Array, limit: float) -> tuple[jax.Array, jax.Array]:
    return value, value >= limit


def _stop_at_backward(limit: float, reached: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
    del limit
    # Descent raises the value where the cotangent is negative.
    return (jnp.where(reached & (cotangent < 0), 0.0, cotangent),)


_stop_at.defvjp(_stop_at_forward, _stop_at_backward)
