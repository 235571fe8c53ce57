"""A run's constants of the head "consensus": the graph of concepts, and words that name them."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from absl import logging

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data.text.concept_graph import Concepts
from xmodal.pretrained.word_vectors import find_vectors
from xmodal.train.sections import InitConfig
from xmodal.train.step.state import TrainState, replace_arrays
from xmodal.train.tree import flatten

_WHERE = "config.init_from.concepts"
_GRAPH = "constants/head/graph"
_TABLE = "text/constants/head/concept_of_word"


def load_constants(
    shapes: TrainState,
    source: InitConfig,
    settings: data.DataConfig,
    train_split: str,
    seed: int,
) -> dict[str, np.ndarray]:
    """Returns the constants by path in the model state; {} for a model without concepts.

    Vectors of concepts come from the concept file, else from `config.init_from.word_vectors`; those
    that neither has are drawn from N(0, 1).

    Args:
      shapes: shapes of the state they are for.
      source: `config.init_from`; a model that it names has constants of its own.
      settings: `config.data`, whose vocabulary is looked up.
      train_split: `config.train_split`.
      seed: seed of the vectors that are drawn.

    Raises:
      UserError: the file is missing or damaged, or has other concepts than the model.
    """
    state = flatten(shapes.model_state)
    sides = [side for side in ("image", "text") if f"{side}/{_GRAPH}/vectors" in state]
    if not sides:
        if source.concepts:
            raise UserError(f"{_WHERE}={source.concepts!r}, but no head is 'consensus'.")
        return {}
    if source.model:
        return {}
    count, width = state[f"{sides[0]}/{_GRAPH}/vectors"].shape
    concepts = data.load_concepts(source.concepts, settings, count, train_split)
    if len(concepts.words) != count:
        raise UserError(
            f"{source.concepts or 'The training captions'} have {len(concepts.words)} concepts, "
            f"but config.model.*.head.concepts is {count}; set it to {len(concepts.words)}."
        )
    vectors = _find_vectors(concepts, source, width, seed)
    found = {}
    for side in sides:
        found[f"{side}/{_GRAPH}/vectors"] = vectors
        found[f"{side}/{_GRAPH}/adjacency"] = concepts.adjacency()
    if _TABLE in state:
        words = data.load_vocabulary(settings, train_split)
        table = np.full(state[_TABLE].shape, count, np.int32)
        table[: len(words)] = concepts.concept_of_word(words)
        found[_TABLE] = table
    return found


def _find_vectors(concepts: Concepts, source: InitConfig, width: int, seed: int) -> np.ndarray:
    vectors = concepts.vectors
    if vectors is None:
        vectors = np.random.default_rng(seed).normal(size=(len(concepts.words), width))
        file, rows = source.word_vectors.file, {}
        if file:
            rows = find_vectors(file, concepts.words, source.word_vectors.misses)
        if len(rows) < len(concepts.words):
            logging.warning(
                "%d of %d concepts have random vectors; config.init_from.word_vectors.file names "
                "published ones.",
                *(len(concepts.words) - len(rows), len(concepts.words)),
            )
        if rows and len(next(iter(rows.values()))) == width:
            vectors[list(rows)] = np.stack(list(rows.values()))
        elif rows:
            raise UserError(
                f"{file} has vectors of {len(next(iter(rows.values())))} numbers, but "
                f"config.model.*.head.concept_width is {width}."
            )
    if vectors.shape[1] != width:
        raise UserError(
            f"{source.concepts} has vectors of {vectors.shape[1]} numbers, but "
            f"config.model.*.head.concept_width is {width}."
        )
    return vectors.astype(np.float32)


def place(state: TrainState, constants: Mapping[str, np.ndarray]) -> TrainState:
    """Returns the state with these constants."""
    model_state = replace_arrays(state.model_state, constants)
    return dataclasses.replace(state, model_state=model_state)
