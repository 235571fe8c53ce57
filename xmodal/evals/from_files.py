"""Evaluates what any model handed over, on released labels: the same in a notebook and by command.

evaluation = evaluate(
    embeddings="model.npz", annotations="labels", split="test", similarity="cosine"
)
print(evaluation.report())
evaluation.save("results")
"""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.config import UserError, lookup
from xmodal.evals.boards.definitions import RATING_SIDES
from xmodal.evals.boards.make import explain_left_out, make_boards
from xmodal.evals.boards.types import Board, Labels
from xmodal.evals.evaluation import Evaluation, warn_of_part
from xmodal.evals.inputs import arrays, galleries, lists
from xmodal.evals.inputs.sources import Embeddings, RankedLists, ScoreMatrix, Source
from xmodal.evals.labels.annotations import Annotations, read_annotations, restrict
from xmodal.evals.reports.compare import check_comparable, rated_tasks
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.results import BoardResult
from xmodal.evals.runner import evaluate_boards
from xmodal.losses.similarity import SIMILARITIES, make_scorer

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
    other: StoredResults | None = None,
) -> Evaluation:
    """Evaluates embeddings, scores or ranked lists; give one of the three.

    Args:
      embeddings: see `arrays.load_embeddings`.
      scores: see `arrays.load_scores`.
      rankings: see `lists.load_rankings`.
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
      other: another model, which will be compared with this one.

    Raises:
      UserError: something that was given cannot be used; says what, where and what to do. That
        the models cannot be compared is said before anything is computed.
    """
    given = {"embeddings": embeddings, "scores": scores, "rankings": rankings}
    kinds = [kind for kind, source in given.items() if source is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise UserError(f"Give one of embeddings, scores and rankings, not {found}.")
    (kind,) = kinds
    _check_draws(bootstrap_samples, seed)
    _check_similarity(kind, similarity)
    boards = _list_names(boards)
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
    made = make_boards(labels, boards)
    if not made:
        raise UserError(f"No board is named, or the files in {annotations} allow none.")
    if other is not None:
        check_comparable(other, made, bootstrap_samples, seed, rated=_rated_tasks(saved))
    source, place = _order(saved, labels, made, similarity), saved.place
    del saved  # embeddings in their old order
    results = evaluate_boards(
        source, labels, made, bootstrap_samples=bootstrap_samples, seed=seed, mesh=mesh
    )
    _check_found(results, place)
    warnings = _warn(labels, annotations)
    return Evaluation(
        name=name or _name_of(given[kind]),
        title=f"{labels.name}, {labels.split} split",
        results=results,
        similarity=similarity or kind,
        samples=bootstrap_samples,
        seed=seed,
        published=labels.split == "test" and not warnings,
        warnings=warnings,
        notes=[*notes, *(_left_out(labels, made) if boards is None else [])],
    )


def _check_draws(samples: Any, seed: Any) -> None:
    for name, value in (("bootstrap_samples", samples), ("seed", seed)):
        if not isinstance(value, Integral):
            raise UserError(f"{name} is {value!r}; give a whole number.")
    if samples < 1:
        raise UserError(f"{samples} bootstrap samples are too few; the papers draw 1000.")
    if seed < 0:
        raise UserError(f"The seed {seed} is negative; give 0 or more.")


def _list_names(boards: Any) -> list[str] | None:
    """Names of boards as a list; one may be given by itself."""
    if boards is None:
        return None
    names = [boards] if isinstance(boards, str) or not hasattr(boards, "__iter__") else boards
    if strange := [name for name in names if not isinstance(name, str)]:
        raise UserError(f"boards name {strange[0]!r}; give a list of names of boards, or None.")
    return list(names)


def _check_similarity(kind: str, similarity: str | None) -> None:
    if kind == "embeddings":
        if similarity is None:
            raise UserError(
                f"Name the similarity that the model ranks by, one of {sorted(SIMILARITIES)}: they "
                "rank differently, so none is assumed."
            )
        lookup("similarity", str(similarity), SIMILARITIES)
    elif similarity is not None:
        raise UserError(f"Similarity {similarity!r} is for embeddings; {kind} rank by themselves.")


def _load(kind: str, source: Any, ids: Any) -> Saved:
    if kind == "scores":
        return arrays.load_scores(source, ids)
    if ids is not None:
        raise UserError(f"Ids are for a matrix of scores; {kind} hold their own.")
    load = {"embeddings": arrays.load_embeddings, "rankings": lists.load_rankings}
    return load[kind](source)


def _restrict(labels: Annotations, saved: Saved, partial: bool) -> Annotations:
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


def _rated_tasks(saved: Saved) -> set[str]:
    """Rating tasks that can be correlated with what was handed over."""
    if isinstance(saved, lists.SavedRankings):
        return set()
    if isinstance(saved, arrays.SavedMatrix):
        return {task for task, (left, right, _) in RATING_SIDES.items() if left != right}
    given = {"image": saved.image, "text": saved.captions}
    return rated_tasks([name for name, rows in given.items() if rows is not None])


def _check_found(results: Sequence[BoardResult], place: str) -> None:
    """Refuses results without a single number that judges the model."""
    reasons = set()
    for board in results:
        tasks = board.tasks.values()
        if board.correlations or any(task.values or task.has_median for task in tasks):
            return
        reasons |= set(board.skipped.values())
        reasons |= {reason for task in tasks for reason in task.missing.values()}
    raise UserError(
        f"{place} is not enough for any of {', '.join(board.name for board in results)}: "
        f"{'; '.join(sorted(reasons))}."
    )


def _warn(labels: Annotations, annotations: PathLike) -> list[str]:
    """Why the numbers compare with no published one."""
    warnings = warn_of_part(labels.partial, labels.split)
    if labels.differences:
        warnings.append(
            f"NOT THE RELEASED LABELS: in {os.fspath(annotations)}, "
            f"{'; '.join(labels.differences)}. The numbers compare with no published number; "
            "unless a part is meant, take the released files again."
        )
    return warnings


def _left_out(labels: Labels, boards: Sequence[Board]) -> list[str]:
    """Boards that the annotations do not allow, with the reasons."""
    reasons = explain_left_out(labels, boards)
    return [f"Left out {' and '.join(names)}: {reason}." for reason, names in reasons.items()]
