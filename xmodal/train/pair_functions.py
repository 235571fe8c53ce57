"""The functions of a model's cross-encoder, for evaluation."""

import dataclasses
from typing import Any

import jax

from xmodal.evals.scores.pair_scores import PairFunctions, Tokens
from xmodal.models import DualEncoder, Features


def make_pair_functions(model: DualEncoder) -> PairFunctions | None:
    """Returns the functions that prepare items and score pairs; None without a cross-encoder."""
    scorer = model.cross_encoder
    if scorer is None:
        return None

    # Every call would copy the layers that are shared with the text encoder out of its stack. A
    # compiled function copies all parameters that it returns.
    complete = jax.jit(scorer.complete) if scorer.shared else scorer.complete
    bound = dataclasses.replace(scorer, shared=None)

    def bind(params: Any) -> Any:
        return {"cross_encoder": complete(params)}

    def prepare(modality: str, params: Any, items: Tokens) -> Any:
        return bound.prepare(modality, params, Features(*items))

    def score(params: Any, images: Any, texts: Any) -> jax.Array:
        return bound.scores(params, images, texts)

    definition = f"{scorer.score} of {scorer.name}"
    settings = f"{definition} {scorer.module!r}"
    return PairFunctions(definition, prepare, score, scorer.pair_bytes, settings, bind)
