"""Judges models exactly: boards of retrieval and ratings, sentence pairs, pools, relations."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmodal.evals.embed import Embedder
    from xmodal.evals.evaluation import Evaluation, judge
    from xmodal.evals.evaluators import EVALUATORS, make_evaluator, read_options
    from xmodal.evals.from_files import evaluate
    from xmodal.evals.inputs.arrays import load_embeddings, save_embeddings
    from xmodal.evals.inputs.sources import Embeddings

__all__ = [
    "EVALUATORS",
    "Embedder",
    "Embeddings",
    "Evaluation",
    "evaluate",
    "judge",
    "load_embeddings",
    "make_evaluator",
    "read_options",
    "save_embeddings",
]

# Imported when they are used: who only embeds needs neither scipy nor the boards.
_HOMES = {
    "EVALUATORS": "evaluators",
    "Embedder": "embed",
    "Embeddings": "inputs.sources",
    "Evaluation": "evaluation",
    "evaluate": "from_files",
    "judge": "evaluation",
    "load_embeddings": "inputs.arrays",
    "make_evaluator": "evaluators",
    "read_options": "evaluators",
    "save_embeddings": "inputs.arrays",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'xmodal.evals' has no attribute {name!r}")
    return getattr(importlib.import_module(f"xmodal.evals.{_HOMES[name]}"), name)
