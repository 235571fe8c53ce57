"""Exact evaluation of models: retrieval and rating boards, sentence pairs, pools, relations."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from xmodal.evals.embed import Embedder
    from xmodal.evals.evaluation import Evaluation, evaluate_source
    from xmodal.evals.evaluators import EVALUATORS, make_evaluator, read_options
    from xmodal.evals.inputs.arrays import load_embeddings, save_embeddings
    from xmodal.evals.inputs.sources import Embeddings

__all__ = [
    "EVALUATORS",
    "Embedder",
    "Embeddings",
    "Evaluation",
    "evaluate_source",
    "load_embeddings",
    "make_evaluator",
    "read_options",
    "save_embeddings",
]

# Imported on first use: callers that only embed need neither SciPy nor the boards.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "embed": ["Embedder"],
        "evaluation": ["Evaluation", "evaluate_source"],
        "evaluators": ["EVALUATORS", "make_evaluator", "read_options"],
        "inputs.arrays": ["load_embeddings", "save_embeddings"],
        "inputs.sources": ["Embeddings"],
    },
)
