"""Checks that evaluators with a pair scorer have one."""

from collections.abc import Mapping

from xmodal.base.config import UserError
from xmodal.evals.evaluators import Options
from xmodal.models import DualEncoder


def check_pair_scorer(evals: Mapping[str, Options], model: DualEncoder) -> None:
    """Raises an error if an evaluator ranks by what the model lacks, a pair scorer or embeddings.

    Raises:
      UserError: names the evaluator and the remedy.
    """
    for name, options in evals.items():
        if options.scores_pairs and model.pair_scorer is None:
            raise UserError(
                f"config.evals.{name}.reranker is 'pair_scorer', but the model has none; set "
                "config.model.pair_scorer, or the reranker to None."
            )
        if not options.scores_pairs and not model.embeds:
            raise UserError(
                f"config.evals.{name} compares embeddings, and the model has only a pair scorer; "
                "set its type to 'boards' and its reranker to {'name': 'pair_scorer'}, or remove "
                "it."
            )
