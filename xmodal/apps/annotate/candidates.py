"""Candidates of several models in sets (HITs), as in ECCV Caption.

The candidates of a query are the best items of every model; a pair proposed by several models or in
both directions is asked once. Every set has two golden pairs: a caption with its own image, and one
with an image that no model ranks high.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xmodal.apps.annotate.match_labels import Pair
from xmodal.apps.annotate.study_file import Proposal, StudyQuestion, StudyUnit
from xmodal.apps.model_files import best_items
from xmodal.core.errors import UserError

if TYPE_CHECKING:
    from xmodal.data import EvalSplit
    from xmodal.evals.scores.sources import Source

# No model ranks the images of a negative golden pair among its first 25.
DEPTH = 25
_ATTEMPTS = 200


class Pool(NamedTuple):
    """Candidates of all queries.

    Attributes:
      pairs: (caption, image) of every candidate to ask about, once.
      proposals: who proposes which candidate, one or several times.
      near: all pairs that some model ranks among its first 25, and all that are judged already.
      queries: direction -> ids of the queries, for which `near` is known.
    """

    pairs: list[Pair]
    proposals: list[Proposal]
    near: set[Pair]
    queries: Mapping[str, np.ndarray]


def draw_queries(ids: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Returns `count` of the ids (all for -1), in order."""
    if count < 0 or count >= len(ids):
        return np.asarray(ids)
    return ids[np.sort(generator.choice(len(ids), count, replace=False))]


def collect(
    models: Mapping[str, "Source"],
    split: "EvalSplit",
    queries: Mapping[str, np.ndarray],
    top: int,
    judged: Collection[Pair] = frozenset(),
) -> Pool:
    """Returns the candidates of several models.

    Args:
      models: name -> a model that proposes its best items.
      split: the queries and galleries.
      queries: direction, `i2t` and `t2i`, -> ids of its queries.
      top: number of candidates per model and query.
      judged: pairs that are not asked again.
    """
    queries = {direction: ids for direction, ids in queries.items() if len(ids)}
    near: set[Pair] = set(judged)
    proposals: list[Proposal] = []
    for direction, ids in queries.items():
        for name, source in models.items():
            lists = best_items(source, split, direction, ids, max(top, DEPTH))
            for query, best in zip(ids.tolist(), lists, strict=True):
                items = best.tolist()
                found = [(query, each) if direction == "t2i" else (each, query) for each in items]
                near.update(found[:DEPTH])
                ranked = enumerate(found[:top], 1)
                proposals += (Proposal(*pair, name, direction, rank) for rank, pair in ranked)
    pairs = dict.fromkeys(each.pair for each in proposals)
    asked = [pair for pair in pairs if pair not in judged]
    if pairs and not asked:
        raise UserError(f"All {len(pairs):,} pairs that the models propose are judged already.")
    return Pool(asked, proposals, near, queries)


def draw_sets(
    pool: Pool,
    split: "EvalSplit",
    per_hit: int,
    qualification: int,
    generator: np.random.Generator,
) -> list[StudyUnit]:
    """Returns sets of candidates in random order, each with two golden pairs in random places.

    Args:
      pool: pool of candidates.
      split: split whose captions and images form the golden pairs.
      per_hit: largest number of candidates in a set; sizes differ by at most one.
      qualification: number of golden pairs in a set that every rater gets first, which no other
        set may have; 0 for none.
      generator: random generator for all draws.
    """
    candidates = set(pool.pairs)
    ids = split.caption_ids.tolist(), split.caption_image_ids.tolist()
    originals = [*zip(*ids, strict=True)]
    shuffled = [originals[row] for row in generator.permutation(len(originals))]
    # Candidates are asked anyway, so they come last.
    positives = sorted(shuffled, key=candidates.__contains__)
    first, positives = positives[: -(-qualification // 2)], positives[-(-qualification // 2) :]
    negatives = _draw_negatives(pool, split, candidates.union(originals), generator)
    more = itertools.cycle(positives)

    def unit(pairs: Sequence[Pair], right: Sequence[Pair], wrong: int) -> StudyUnit:
        questions = [StudyQuestion("match", *pair) for pair in pairs]
        questions += [StudyQuestion("match", *pair, golden="yes") for pair in right]
        known = itertools.islice(negatives, wrong)
        questions += [StudyQuestion("match", *pair, golden="no") for pair in known]
        order = generator.permutation(len(questions))
        return StudyUnit(tuple(questions[row] for row in order), test=not pairs)

    units = [unit([], first, qualification // 2)] if qualification else []
    order = generator.permutation(len(pool.pairs))
    for rows in np.array_split(order, -(-len(order) // per_hit) or 1):
        chosen = [pool.pairs[row] for row in rows]
        others = (pair for pair in itertools.islice(more, len(positives)) if pair not in chosen)
        units.append(unit(chosen, [*itertools.islice(others, 1)], 1))
    return units


def _draw_negatives(
    pool: Pool, split: "EvalSplit", known: set[Pair], generator: np.random.Generator
) -> Iterator[Pair]:
    """Pairs that no model ranks among its first 25, each once."""
    near = pool.near | known
    # A pair without a query may be right: no model has ranked it.
    ranked = [
        (asked, split.image_ids) if direction == "t2i" else (split.caption_ids, asked)
        for direction, asked in pool.queries.items()
    ]
    for _ in range(_ATTEMPTS * (1 + len(pool.pairs))):
        captions, images = ranked[generator.integers(len(ranked))]
        pair = int(generator.choice(captions)), int(generator.choice(images))
        if pair not in near:
            near.add(pair)
            yield pair
    raise UserError(
        f"No pair is beyond the first {DEPTH} of all models, so none is known to be wrong: take a "
        "larger split, or fewer models."
    )
