"""Evaluates files of any model on released labels, in a notebook or from the command line.

evaluation = evaluate(
    embeddings="model.npz", annotations="labels", split="test", similarity="cosine"
)
print(evaluation.report())
evaluation.save("results")
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from jax.sharding import Mesh

from xmodal.base.config import UserError, lookup, read
from xmodal.evals.evaluation import Evaluation, evaluate_source
from xmodal.evals.evaluators.boards import BoardsOptions, boards_of_annotations
from xmodal.evals.inputs import arrays, lists
from xmodal.evals.inputs.galleries import ids_of
from xmodal.evals.inputs.sentences import Sentences
from xmodal.evals.inputs.sources import Embeddings, RankedLists, Source
from xmodal.evals.reports.store import StoredResults
from xmodal.similarity import PAIR_MODULES, SIMILARITIES, make_similarity

PathLike = str | os.PathLike
Vectors = TypeVar("Vectors", Embeddings, Sentences)


def evaluate_files(
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
    """Evaluates embeddings, scores or ranked lists; pass one of the three.

    Args:
      embeddings: see `arrays.load_embeddings`.
      scores: see `arrays.load_scores`.
      rankings: see `lists.load_rankings`.
      ids: ids of a bare matrix of scores.
      annotations: folder of the released label files, see `annotations.read_annotations`.
      split: split of these labels.
      boards: names of boards; None for all that the annotations allow.
      similarity: similarity of embeddings, a name in `xmodal.similarity.SIMILARITIES`; None
        for the one that the file names. There is no default, since dot product and cosine rank
        differently.
      partial: whether to evaluate on the existing items although the split has more.
      name: name of the model's row; by default that of the file.
      bootstrap_samples: samples of every interval and correlation.
      seed: seed of the bootstrap.
      mesh: devices over which galleries are sharded.
      other: another model to compare with this one.

    Raises:
      UserError: an argument or a file cannot be used; says why, where and what to do. If the
        models cannot be compared, the error comes before anything is computed.
    """
    given = {"embeddings": embeddings, "scores": scores, "rankings": rankings}
    kinds = [kind for kind, source in given.items() if source is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise UserError(f"Give one of embeddings, scores and rankings, not {found}.")
    (kind,) = kinds
    section = {
        "type": "boards",
        "annotations": str(annotations) if isinstance(annotations, os.PathLike) else annotations,
        "boards": (boards,) if isinstance(boards, str) else boards,
        "bootstrap_samples": bootstrap_samples,
        "seed": seed,
    }
    options = read(BoardsOptions, "evaluate", section)
    if partial and kind == "rankings":
        raise UserError(
            "`partial` is for embeddings and scores: ranked lists do not tell which items exist."
        )
    source = _load(kind, given[kind], ids, similarity)
    item_ids = None if isinstance(source, RankedLists) else ids_of(source)
    evaluator = boards_of_annotations(
        options, split, source.place, item_ids, partial=partial, mesh=mesh
    )
    if other is not None:
        evaluator.check_comparable(other)
    return evaluate_source(evaluator, source, name=name or name_of(given[kind]))


def _load(kind: str, source: Any, ids: Any, similarity: str | None) -> Source:
    """Reads the file of a kind."""
    if kind != "embeddings" and similarity is not None:
        raise UserError(f"Similarity {similarity!r} is for embeddings; {kind} need none.")
    if kind == "scores":
        return arrays.load_scores(source, ids)
    if ids is not None:
        raise UserError(f"Ids are for a matrix of scores; {kind} have their own.")
    if kind == "rankings":
        return lists.load_rankings(source)
    if similarity is not None:
        # Before reading a large file.
        lookup("similarity", str(similarity), {**SIMILARITIES, **PAIR_MODULES})
    return choose_similarity(arrays.load_embeddings(source), similarity)


def choose_similarity(embeddings: Vectors, similarity: str | None) -> Vectors:
    """Returns the embeddings with the requested similarity, else with that of the file.

    Raises:
      UserError: there is none, or a number that it needs is missing.
    """
    name = similarity or embeddings.similarity
    if not name:
        raise UserError(
            f"Name the similarity that the model ranks by, one of {sorted(SIMILARITIES)}: they "
            "rank differently, so there is no default."
        )
    if name in PAIR_MODULES:
        if name != embeddings.similarity or not getattr(embeddings, "tokens", None):
            raise UserError(
                f"Similarity {name!r} compares tokens by parameters that the model learns, and "
                f"{embeddings.place} has none of it; name a similarity of vectors."
            )
        return embeddings
    chosen = make_similarity({"name": name}, "similarity")
    # A file may hold the numbers of a similarity that was not requested.
    needed = chosen.parameters
    parameters = {key: value for key, value in embeddings.parameters.items() if key in needed}
    chosen.scorer(parameters)  # Raises an error here if a number is missing.
    changes: dict[str, Any] = {"similarity": name, "parameters": parameters}
    if isinstance(embeddings, Embeddings):
        changes |= {"options": {}, "tokens": {}}
    return dataclasses.replace(embeddings, **changes)


def name_of(source: Any) -> str:
    """Returns the name of a model's row from its file."""
    return "model" if isinstance(source, Mapping) else os.path.splitext(os.path.basename(source))[0]
