"""Evaluators by type: `config.evals = {NAME: {"type": ..., **options}}`."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jax.sharding import Mesh

from xmodal.core.config import lookup, read
from xmodal.evals.evaluators.ambiguity import AmbiguityEvaluator, AmbiguityOptions
from xmodal.evals.evaluators.benchmarks import BenchmarksOptions, benchmarks_of_split
from xmodal.evals.evaluators.classification import ClassificationEvaluator
from xmodal.evals.evaluators.classifiers import KnnOptions, LinearProbeOptions, ZeroShotOptions
from xmodal.evals.evaluators.embedding_similarity import (
    EmbeddingSimilarityEvaluator,
    EmbeddingSimilarityOptions,
)
from xmodal.evals.evaluators.evaluator import Evaluator, Options, Split
from xmodal.evals.evaluators.pools import PoolsEvaluator, PoolsOptions
from xmodal.evals.evaluators.relations import RelationsEvaluator, RelationsOptions

# Type -> the class of its options, and (where, options, split, modalities, mesh) -> evaluator.
EVALUATORS: dict[str, tuple[type[Options], Callable[..., Evaluator]]] = {
    "ambiguity": (AmbiguityOptions, AmbiguityEvaluator),
    "benchmarks": (BenchmarksOptions, benchmarks_of_split),
    "knn": (KnnOptions, ClassificationEvaluator),
    "linear_probe": (LinearProbeOptions, ClassificationEvaluator),
    "embedding_similarity": (EmbeddingSimilarityOptions, EmbeddingSimilarityEvaluator),
    "pools": (PoolsOptions, PoolsEvaluator),
    "relations": (RelationsOptions, RelationsEvaluator),
    "zero_shot": (ZeroShotOptions, ClassificationEvaluator),
}


def read_options(evals: Mapping[str, Mapping[str, Any]]) -> dict[str, Options]:
    """Returns the options of every evaluator of `config.evals` by its name."""
    return {name: read_entry(f"config.evals.{name}", section) for name, section in evals.items()}


def read_entry(where: str, section: Mapping[str, Any]) -> Options:
    """Returns the options of one evaluator; `where` is its section as a user writes it."""
    kind = section.get("type", "") if isinstance(section, Mapping) else ""
    kind_of_options, _ = lookup(f"{where}.type", kind, EVALUATORS)
    options = read(kind_of_options, where, section, named=True)
    options.check(where)
    return options


def make_evaluator(
    name: str,
    options: Options,
    split: Split,
    modalities: Collection[str],
    mesh: Mesh | None = None,
) -> Evaluator:
    """Returns the evaluator of `config.evals.NAME` for a split and the modalities that a model
    embeds.
    """
    _, make = EVALUATORS[options.type]
    return make(f"config.evals.{name}", options, split, modalities, mesh)
