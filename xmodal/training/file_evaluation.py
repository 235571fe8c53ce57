"""Evaluates a file of embeddings on the datasets of a config, without a model."""

from collections.abc import Collection, Iterator
from typing import NamedTuple, cast

import ml_collections

from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.evals import (
    Embeddings,
    Evaluation,
    judge,
    load_embeddings,
    make_evaluator,
    read_options,
)
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Evaluator
from xmodal.evals.example_page import check_examples
from xmodal.evals.from_files import choose_similarity, name_of
from xmodal.evals.inputs.sentences import Sentences, has_sentences, load_sentences
from xmodal.evals.reports.store import StoredResults
from xmodal.tensorboard.views import View
from xmodal.training.eval_splits import SplitSource
from xmodal.training.evaluation import load_results
from xmodal.training.schedules import resolve_epochs
from xmodal.training.sizes import resolve_sizes


def judge_embeddings(
    path: str,
    config: ml_collections.ConfigDict,
    *,
    names: Collection[str] | None = None,
    split: str | None = None,
    similarity: str | None = None,
    name: str | None = None,
    compare: str | None = None,
    examples: int = 0,
    view: View | None = None,
) -> tuple[list[Evaluation], dict[str, StoredResults]]:
    """Returns one evaluation per evaluator of `config.evals`, and other results to compare with.

    Args:
      path: npz file of embeddings by id or of sentences, see `load_embeddings` and
        `load_sentences`.
      config: of a run; only its sections `data` and `evals` count.
      names: evaluators to use; None for all.
      split: see `RunEvaluation.judge`.
      similarity: see `choose_similarity`.
      name: of the model's row; None for that of the file.
      compare: see `RunEvaluation.load_others`.
      examples: see `RunEvaluation.judge`.
      view: the same.

    Raises:
      UserError: the file cannot be used, or lacks a caption of a split; an unknown evaluator; a
        dataset that is missing.
    """
    evaluations, others = [], {}
    for each in open_evaluators(
        path, config, names=names, split=split, similarity=similarity, examples=examples
    ):
        if compare is not None:
            others[each.name] = load_results(compare, each.name, each.evaluator)
        evaluations.append(
            judge(
                each.evaluator,
                each.embeddings,
                name=name or name_of(path),
                evaluator_name=each.name,
                split=each.items,
                examples=examples,
                other=others.get(each.name),
            )
        )
        if view is not None:
            view(each.name, each.evaluator, each.embeddings, evaluations[-1].results, each.items)
    return evaluations, others


class Opened(NamedTuple):
    """An evaluator of a config, the items that it judges, and their embeddings."""

    name: str
    evaluator: Evaluator
    items: Items
    embeddings: Embeddings


def open_evaluators(
    path: str,
    config: ml_collections.ConfigDict,
    *,
    names: Collection[str] | None = None,
    split: str | None = None,
    similarity: str | None = None,
    examples: int = 0,
) -> Iterator[Opened]:
    """Yields the evaluators of `config.evals` with the embeddings of a file.

    For arguments and errors see `judge_embeddings`.
    """
    sections = read_options(resolve_epochs(resolve_sizes(config.to_dict(), 0), 1)["evals"])
    if unknown := sorted(set(names or ()) - set(sections)):
        raise UserError(f"Unknown evaluator(s) {unknown}; config.evals has {sorted(sections)}.")
    wanted = {each: sections[each] for each in sections if not names or each in names}
    check_examples(examples, wanted)
    source: Sentences | Embeddings
    if has_sentences(path):
        source = choose_similarity(load_sentences(path), similarity)
    else:
        source = choose_similarity(load_embeddings(path), similarity)
    mesh = mesh_lib.make_mesh()
    for name, options in wanted.items():
        dataset = SplitSource.of(config.data.to_dict(), name, options)
        chosen = options.final_split if split is None or options.data is not None else split
        items = cast(Items, dataset.open(chosen))
        found = source.of_split(items) if isinstance(source, Sentences) else source
        evaluator = make_evaluator(name, options, items, found.sides, mesh)
        yield Opened(name, evaluator, items, found)
