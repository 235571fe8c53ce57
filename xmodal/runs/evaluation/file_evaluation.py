"""Evaluates a file of embeddings on the datasets of a config, without a model."""

from collections.abc import Collection, Iterator, Mapping

import ml_collections
from absl import logging

from xmodal.base import mesh as mesh_lib
from xmodal.base.config import UserError
from xmodal.evals import Embeddings, Evaluation, load_embeddings, read_options
from xmodal.evals.evaluators import Options
from xmodal.evals.example_page import check_examples
from xmodal.evals.from_files import choose_similarity, name_of
from xmodal.evals.inputs.sentences import Sentences, has_sentences, load_sentences
from xmodal.evals.reports.store import StoredResults
from xmodal.runs.config.sizes import resolve_sizes
from xmodal.runs.evaluation.suite import FINAL_SPLITS, EvalSuite, Opened, Request, evaluate_all
from xmodal.runs.tensorboard.example_views import View
from xmodal.training.optimization.schedules import resolve_epochs

_VECTORS = (None, "vector")


def evaluate_file(
    path: str,
    config: ml_collections.ConfigDict,
    request: Request = FINAL_SPLITS,
    *,
    names: Collection[str] | None = None,
    similarity: str | None = None,
    name: str | None = None,
    view: View | None = None,
) -> tuple[list[Evaluation], dict[str, StoredResults]]:
    """Returns one evaluation per evaluator of `config.evals`, and results to compare with.

    Args:
      path: npz file of embeddings by id or of sentences, see `load_embeddings` and
        `load_sentences`.
      config: config of a run; only its sections `data` and `evals` are used.
      request: what to evaluate; the embeddings are not saved.
      names: evaluators to use; None for all that rank vectors.
      similarity: see `choose_similarity`.
      name: name of the model's row; None for the name of the file.
      view: see `evaluate_all`.

    Raises:
      UserError: the file cannot be used or lacks a caption of a split, an evaluator is unknown or
        ranks other arrays than vectors, or a dataset is missing.
    """
    suite, source = open_file(path, config, names=names, similarity=similarity)
    check_examples(request.examples, suite.options)
    others = suite.load_others(request)
    evaluations = evaluate_all(
        open_all(suite, source, request.split),
        name=name or name_of(path),
        examples=request.examples,
        others=others,
        view=view,
    )
    return evaluations, others


def open_file(
    path: str,
    config: ml_collections.ConfigDict,
    *,
    names: Collection[str] | None = None,
    similarity: str | None = None,
) -> tuple[EvalSuite, Sentences | Embeddings]:
    """Returns the evaluators of a config and the embeddings of a file.

    See `evaluate_file` for arguments and errors.
    """
    source: Sentences | Embeddings
    if has_sentences(path):
        source, sides = choose_similarity(load_sentences(path), similarity), frozenset({"text"})
    else:
        source = choose_similarity(load_embeddings(path), similarity)
        sides = source.sides
    sections = {name: config[name].to_dict() for name in ("data", "evals")}
    sections = resolve_epochs(resolve_sizes(sections, 0), 1)
    # Only the evaluators that the user named have to be there.
    names = names or _keep_vectors(path, read_options(sections["evals"]))
    suite = EvalSuite(sections, sides, mesh_lib.make_mesh(), names)
    if others := _other_fields(suite.options):
        raise UserError(_explain(path, others))
    return suite, source


def _keep_vectors(path: str, options: Mapping[str, Options]) -> list[str]:
    """Returns the evaluators that rank vectors, which are all that a file has; or all if none."""
    others = _other_fields(options)
    kept = [name for name in options if name not in others]
    if others and kept:
        logging.warning("Left out: %s", _explain(path, others))
    return kept or list(options)


def _other_fields(options: Mapping[str, Options]) -> dict[str, str | None]:
    """Returns evaluator -> array, for those that rank other arrays than vectors."""
    return {name: each.field for name, each in options.items() if each.field not in _VECTORS}


def _explain(path: str, others: Mapping[str, str | None]) -> str:
    listed = " and ".join(f"config.evals.{name} ranks {field!r}" for name, field in others.items())
    return (
        f"{listed}, but {path} has one array per item, the vectors. To evaluate another array, "
        f"save it with --run=RUN --evaluators={next(iter(others))} --save_embeddings=FILE, and "
        "evaluate that file with an evaluator that names no field."
    )


def open_all(
    suite: EvalSuite, source: Sentences | Embeddings, split: str | None
) -> Iterator[Opened]:
    """Yields the evaluators with their items and the items' embeddings."""
    for name in suite.options:
        chosen = suite.split_of(name, split)
        evaluator, items = suite.evaluator(name, chosen), suite.items(name, chosen)
        found = source.of_split(items) if isinstance(source, Sentences) else source
        yield Opened(name, evaluator, items, found)
