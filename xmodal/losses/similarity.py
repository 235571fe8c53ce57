"""Similarities of two embeddings, by name: training and ranking share this table.

A similarity prepares the embeddings of each side once and scores blocks of prepared items. The
losses take those that are an inner product of prepared vectors; ranking takes all of them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from xmodal.config import UserError, check_keys, lookup

# XLA's CPU product sums the left-over rows and columns of a block in another order than the rest,
# so the same two vectors would score differently in blocks of different sizes.
_TILE = 64

# Of the squared distance, so that the gradient of the distance is finite where samples coincide.
_SMALLEST_SQUARE = 1e-6

Prepared = jax.Array | dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Similarity:
    """How two embeddings are compared.

    Attributes:
      prepare: embeddings [N, D] or [N, K, D] -> float32 arrays with N first. Copies of an item
        are prepared alike in all calls of one shape; another N may change the last bit.
      score: (prepared queries of B items, prepared gallery of M items, **parameters) -> float32
        [B, M]. Pure JAX, in memory of a few [B, M]. The value of a pair depends on nothing else
        in its block, so copies of an item score alike to the last bit, and score(y, x) is
        score(x, y) transposed, to the last bit (shown by the tests on the CPU; a GPU library
        picks its product by the shape of the block and does not promise this).
      inner_product: whether the score is the inner product of prepared vectors [N, D].
      parameters: names of the numbers that `score` needs.
    """

    prepare: Callable[[jax.Array], Prepared]
    score: Callable[..., jax.Array]
    inner_product: bool
    parameters: tuple[str, ...] = ()


def normalise(name: str, vectors: jax.Array) -> jax.Array:
    """Prepares embeddings so that the similarity called `name` is their inner product.

    Args:
      name: an inner product in `SIMILARITIES`; the CxC dual encoders use `dot` (raw, no
        temperature).
      vectors: [N, D] embeddings of any float dtype.

    Returns:
      [N, D] float32.

    Raises:
      UserError: the name is not in the table or no inner product, or the vectors are not [N, D].
    """
    usable = {key: row for key, row in SIMILARITIES.items() if row.inner_product}
    if name in SIMILARITIES and name not in usable:
        raise UserError(
            f"The similarity {name!r} is no inner product of two vectors, which this loss or "
            f"evaluation multiplies; set config.model.similarity to one of {sorted(usable)}."
        )
    similarity = lookup("config.model.similarity", name, usable)
    return similarity.prepare(vectors)


def make_scorer(
    name: str, parameters: Mapping[str, float] | None = None
) -> tuple[Callable[[jax.Array], Prepared], Callable[[Prepared, Prepared], jax.Array]]:
    """The similarity called `name` as two functions, for ranking.

    Equal arguments give the same two function objects, so they can be static arguments of a
    jitted function without compiling it again.

    Args:
      name: a key of `SIMILARITIES`.
      parameters: what it needs beside the embeddings: `match_scale` and `match_shift` for
        `match_probability`, nothing for the others.

    Returns:
      `prepare` and `score` as in `Similarity`; `score` has its parameters and takes two blocks.

    Raises:
      UserError: unknown name, a parameter that is missing, unknown or no finite number; later,
        from `prepare`, embeddings of a shape that this similarity does not compare.
    """
    similarity = lookup("similarity", name, SIMILARITIES)
    given = dict(parameters or {})
    check_keys(f"the parameters of similarity {name!r}", given, similarity.parameters)
    missing = [key for key in similarity.parameters if key not in given]
    if missing:
        raise UserError(
            f"Similarity {name!r} needs {missing}: learned by the model, they must come with its "
            "embeddings."
        )
    numbers = {key: _number(f"{key} of similarity {name!r}", value) for key, value in given.items()}
    return similarity.prepare, _bind(name, tuple(sorted(numbers.items())))


def _number(what: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{what} must be a finite number, not {value!r}.")
    return number


@functools.lru_cache(maxsize=64)
def _bind(name: str, parameters: tuple[tuple[str, float], ...]) -> Callable[..., jax.Array]:
    score = SIMILARITIES[name].score
    return functools.partial(score, **dict(parameters)) if parameters else score


def _in_whole_tiles(score: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Fills both blocks with zero items up to whole tiles and cuts their scores off."""

    def fill(x: jax.Array) -> jax.Array:
        return jnp.pad(x, ((0, -x.shape[0] % _TILE),) + ((0, 0),) * (x.ndim - 1))

    @functools.wraps(score)
    def tiled(queries: Prepared, gallery: Prepared, **parameters: float) -> jax.Array:
        rows, columns = (jax.tree.leaves(side)[0].shape[0] for side in (queries, gallery))
        filled = score(jax.tree.map(fill, queries), jax.tree.map(fill, gallery), **parameters)
        return filled[:rows, :columns]

    return tiled


def _products(left: jax.Array, right: jax.Array) -> jax.Array:
    # [B, D] x [M, D] -> [B, M]; float32 throughout, also where the default product is bfloat16.
    return jax.lax.dot_general(
        left, right, (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST
    )


def _single(name: str, vectors: jax.Array) -> jax.Array:
    if jnp.ndim(vectors) != 2:
        raise UserError(
            f"Similarity {name!r} compares one vector per item, [N, D], not embeddings of shape "
            f"{list(jnp.shape(vectors))}; for several vectors per item, [N, K, D], use "
            "'max_cosine' or 'match_probability'."
        )
    return jnp.asarray(vectors, jnp.float32)


def _several(name: str, vectors: jax.Array) -> jax.Array:
    # One vector per item counts as K = 1.
    if jnp.ndim(vectors) not in (2, 3):
        raise UserError(
            f"Similarity {name!r} compares embeddings [N, D] or [N, K, D], not of shape "
            f"{list(jnp.shape(vectors))}."
        )
    vectors = jnp.asarray(vectors, jnp.float32)
    return vectors[:, None] if vectors.ndim == 2 else vectors


def _unit_length(vectors: jax.Array) -> jax.Array:
    # The epsilon stands under the root: the gradient at a zero vector is then zero, not NaN.
    squares = jnp.sum(jnp.square(vectors), axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(squares + 1e-12)


def _with_squares(vectors: jax.Array) -> dict[str, jax.Array]:
    return {"vectors": vectors, "squares": jnp.sum(jnp.square(vectors), axis=-1)}


def _pairs(rows: int, columns: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs (i, j) of vectors: those to add as (i, j) + (j, i), and those without a counterpart.

    With rows and columns exchanged, both lists are the same pairs turned round in the same order,
    so a sum over them has the same bits.
    """
    common = min(rows, columns)
    mutual = [(i, j) for i in range(common) for j in range(i + 1, common)]
    covered = {*mutual, *((j, i) for i, j in mutual)}
    rest = [(i, j) for i in range(rows) for j in range(columns) if (i, j) not in covered]
    return mutual, sorted(rest, key=sorted)


def _accumulate(
    step: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
    start: jax.Array,
    pairs: list[tuple[int, int]],
) -> jax.Array:
    # A loop in the compiled program too, so that one pair's [B, M] is alive at a time.
    if not pairs:
        return start
    first, second = (jnp.asarray(side, jnp.int32) for side in zip(*pairs, strict=True))
    total, _ = jax.lax.scan(lambda total, pair: (step(total, *pair), None), start, (first, second))
    return total


@_in_whole_tiles
def _score_products(queries: jax.Array, gallery: jax.Array) -> jax.Array:
    return _products(queries, gallery)


@_in_whole_tiles
def _score_max_products(queries: jax.Array, gallery: jax.Array) -> jax.Array:
    """The largest product among the vectors of two items, as in PVSE."""
    left, right = jnp.moveaxis(queries, 1, 0), jnp.moveaxis(gallery, 1, 0)  # [K, B, D], [L, M, D]
    pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
    start = jnp.full((left.shape[1], right.shape[1]), -jnp.inf, jnp.float32)
    return _accumulate(
        lambda best, i, j: jnp.maximum(best, _products(left[i], right[j])), start, pairs
    )


@_in_whole_tiles
def _score_match_probability(
    queries: dict[str, jax.Array],
    gallery: dict[str, jax.Array],
    *,
    match_scale: float,
    match_shift: float,
) -> jax.Array:
    """PCME's probability that two items match, over all pairs of their samples.

    The mean of sigmoid(2 (shift - scale d)), d = sqrt(|x - y|^2 + 1e-6). The square is taken from
    |x|^2 + |y|^2 - 2 x y, whose error is about 1e-7 of |x|^2: nothing beside samples around unit
    vectors. In float32 a probability that rounds to 1 (from 2 (shift - scale d) = 17 on) or
    to 0 (below -88) ties with its like.
    """
    left, right = (jnp.moveaxis(side["vectors"], 1, 0) for side in (queries, gallery))
    left_squares, right_squares = (side["squares"].T for side in (queries, gallery))  # [K, B]

    def match(i: jax.Array, j: jax.Array) -> jax.Array:
        lengths = left_squares[i][:, None] + right_squares[j][None]
        squares = jnp.maximum(lengths - 2.0 * _products(left[i], right[j]), 0.0)
        distances = jnp.sqrt(squares + _SMALLEST_SQUARE)
        return jax.nn.sigmoid(2.0 * (match_shift - match_scale * distances))

    mutual, rest = _pairs(len(left), len(right))
    total = jnp.zeros((left.shape[1], right.shape[1]), jnp.float32)
    total = _accumulate(lambda t, i, j: t + (match(i, j) + match(j, i)), total, mutual)
    total = _accumulate(lambda t, i, j: t + match(i, j), total, rest)
    return total / (len(left) * len(right))


SIMILARITIES: dict[str, Similarity] = {
    "dot": Similarity(
        prepare=lambda vectors: _single("dot", vectors),
        score=_score_products,
        inner_product=True,
    ),
    "cosine": Similarity(
        prepare=lambda vectors: _unit_length(_single("cosine", vectors)),
        score=_score_products,
        inner_product=True,
    ),
    "max_cosine": Similarity(
        prepare=lambda vectors: _unit_length(_several("max_cosine", vectors)),
        score=_score_max_products,
        inner_product=False,
    ),
    "match_probability": Similarity(
        prepare=lambda vectors: _with_squares(_several("match_probability", vectors)),
        score=_score_match_probability,
        inner_product=False,
        parameters=("match_scale", "match_shift"),
    ),
}
