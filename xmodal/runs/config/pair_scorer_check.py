"""Checks that the model has the scores that evaluators rank by."""

from collections.abc import Mapping

from xmodal.base.config import UserError
from xmodal.evals.evaluators import Options
from xmodal.models import DualEncoder


def check_pair_scorer(evals: Mapping[str, Options], model: DualEncoder) -> None:
    """Raises an error if a model has no pair scorer, embeddings or token sets to rank by.

    Raises:
      UserError: names the evaluator and the remedy.
    """
    for name, options in evals.items():
        if options.scores_pairs and model.pair_scorer is None:
            raise UserError(
                f"config.evals.{name}.reranker is 'pair_scorer', but the model has none; set "
                "config.model.pair_scorer, or the reranker to None."
            )
        if options.compares_tokens and model.similarity.module is None:
            raise UserError(
                f"config.evals.{name}.reranker is 'similarity', which compares token sets, and "
                f"config.model.similarity is {model.similarity.name!r}, of vectors; set the "
                "reranker to None."
            )
        if not options.scores_pairs and not model.embeds:
            raise UserError(
                f"config.evals.{name} compares embeddings, and the model has only a pair scorer; "
                "set its type to 'boards' and its reranker to {'name': 'pair_scorer'}, or remove "
                "it."
            )
