"""Evaluates what any model handed over, on released labels: the same in a notebook and by command.

evaluation = evaluate(
    embeddings="model.npz", annotations="labels", split="test", similarity="cosine"
)
print(evaluation.report())
evaluation.save("results")
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.evals.boards.definitions import definitions_of
from xmodal.evals.boards.make import make_boards
from xmodal.evals.boards.types import Board, Labels
from xmodal.evals.evaluation import Evaluation
from xmodal.evals.inputs import arrays, galleries, lists
from xmodal.evals.inputs.sources import Embeddings, RankedLists, ScoreMatrix, Source
from xmodal.evals.labels.annotations import read_annotations, restrict
from xmodal.evals.runner import evaluate_boards
from xmodal.losses.similarity import SIMILARITIES, make_scorer
from xmodal.options import UserError, lookup

PathLike = str | os.PathLike
Saved = arrays.SavedEmbeddings | arrays.SavedMatrix | lists.SavedRankings


def evaluate(
    *,
    embeddings: PathLike | Mapping[str, np.ndarray] | None = None,
    scores: PathLike | Mapping[str, np.ndarray] | None = None,
    rankings: PathLike | Mapping[str, Mapping] | None = None,
    ids: PathLike | Mapping[str, np.ndarray] | None = None,
    annotations: PathLike,
    split: str = "test",
    boards: Sequence[str] | None = None,
    similarity: str | None = None,
    partial: bool = False,
    name: str | None = None,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    mesh: Mesh | None = None,
) -> Evaluation:
    """Evaluates embeddings, scores or ranked lists; give one of the three.

    Args:
      embeddings: see `arrays.load_embeddings`.
      scores: see `arrays.load_scores`.
      rankings: see `rankings.load_rankings`.
      ids: of a bare matrix of scores.
      annotations: folder of the released label files, see `annotations.read_annotations`.
      split: of these labels.
      boards: their names; None for all that the annotations allow.
      similarity: of embeddings, a name in `xmodal.losses.similarity.SIMILARITIES`. It has no
        default, since dot product and cosine rank differently.
      partial: evaluate on the items that exist although the split has more.
      name: of the model's row, by default that of the file.
      bootstrap_samples: of every interval and correlation.
      seed: of the bootstrap.
      mesh: devices over which galleries are spread.

    Raises:
      UserError: something that was given cannot be used; says what, where and what to do.
    """
    given = {"embeddings": embeddings, "scores": scores, "rankings": rankings}
    kinds = [kind for kind, source in given.items() if source is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise UserError(f"Give one of embeddings, scores and rankings, not {found}.")
    (kind,) = kinds
    if bootstrap_samples < 1:
        raise UserError(f"{bootstrap_samples} bootstrap samples are too few; the papers draw 1000.")
    _check_similarity(kind, similarity)
    saved = _load(kind, given[kind], ids)
    labels = read_annotations(annotations, split)
    notes = []
    if kind != "rankings":
        coverages = galleries.check_coverage(saved, labels, split=split, partial=partial)
        labels = _restrict(labels, saved, partial)
        notes += [
            f"{each.extra:,} {each.kind}s of {saved.place} are not of this split and play no part."
            for each in coverages
            if each.extra
        ]
    made = make_boards(labels, [boards] if isinstance(boards, str) else boards)
    if not made:
        raise UserError(f"No board is named, or the files in {annotations} allow none.")
    source, place = _order(saved, labels, made, similarity), saved.place
    del saved  # embeddings in their old order
    results = evaluate_boards(
        source, labels, made, bootstrap_samples=bootstrap_samples, seed=seed, mesh=mesh
    )
    if not any(result.tasks or result.correlations for result in results):
        reasons = {reason for result in results for reason in result.skipped.values()}
        raise UserError(
            f"{place} is not enough for any of {', '.join(board.name for board in made)}: "
            f"{'; '.join(sorted(reasons))}."
        )
    whole = not labels.partial
    return Evaluation(
        name=name or _name_of(given[kind]),
        title=f"{labels.name}, {labels.split} split",
        results=results,
        similarity=similarity or kind,
        samples=bootstrap_samples,
        seed=seed,
        published=labels.split == "test" and whole,
        warnings=[] if whole else [_partial_warning(labels)],
        notes=[*notes, *(_left_out(labels, made) if boards is None else [])],
    )


def _check_similarity(kind: str, similarity: str | None) -> None:
    if kind == "embeddings":
        if similarity is None:
            raise UserError(
                f"Name the similarity that the model ranks by, one of {sorted(SIMILARITIES)}: they "
                "rank differently, so none is assumed."
            )
        lookup("similarity", similarity, SIMILARITIES)
    elif similarity is not None:
        raise UserError(f"Similarity {similarity!r} is for embeddings; {kind} rank by themselves.")


def _load(kind: str, source: Any, ids: Any) -> Saved:
    if kind == "scores":
        return arrays.load_scores(source, ids)
    if ids is not None:
        raise UserError(f"Ids are for a matrix of scores; {kind} hold their own.")
    load = {"embeddings": arrays.load_embeddings, "rankings": lists.load_rankings}
    return load[kind](source)


def _restrict(labels: Labels, saved: Saved, partial: bool) -> Labels:
    return restrict(labels, saved.image_ids, saved.caption_ids) if partial else labels


def _order(saved: Saved, labels: Labels, boards: Sequence[Board], similarity: str | None) -> Source:
    """What was handed over, in the order of the galleries."""
    if isinstance(saved, arrays.SavedMatrix):
        return ScoreMatrix(galleries.order_scores(saved, labels))
    if isinstance(saved, lists.SavedRankings):
        ranked = lists.order_rankings(saved, labels, boards)
        return RankedLists(ranked.get("i2t"), ranked.get("t2i"))
    # A file may hold the numbers of a similarity that is not asked for.
    needed = SIMILARITIES[similarity].parameters
    parameters = {key: value for key, value in saved.parameters.items() if key in needed}
    make_scorer(similarity, parameters)  # says what is missing before anything is copied
    return Embeddings(*galleries.order_embeddings(saved, labels), similarity, parameters)


def _name_of(source: Any) -> str:
    return "model" if isinstance(source, Mapping) else os.path.splitext(os.path.basename(source))[0]


def _partial_warning(labels: Labels) -> str:
    return (
        f"PARTIAL: {labels.partial} of the {labels.split} split. Numbers among fewer items are "
        "higher; they compare with no published number."
    )


def _left_out(labels: Labels, boards: Sequence[Board]) -> list[str]:
    """Boards that the annotations do not allow, with the reasons."""
    notes = []
    for name in definitions_of(labels.name):
        if name not in {board.name for board in boards}:
            try:
                make_boards(labels, [name])
            except UserError as error:
                notes.append(f"Left out: {error}")
    return notes
