"""A run's constants of the head "consensus": the graph of concepts, and words that name them."""

import numpy as np
from absl import logging

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data.text.concept_graph import Concepts
from xmodal.pretrained.word_vectors import find_vectors
from xmodal.train.sections import InitConfig
from xmodal.train.tree import TrainState, flatten

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
    """
    state = flatten(shapes.model_state)
    modalities = [
        modality for modality in ("image", "text") if f"{modality}/{_GRAPH}/vectors" in state
    ]
    if source.concepts and not modalities:
        raise UserError(
            f"config.init_from.concepts={source.concepts!r}, but no head is 'consensus'."
        )
    if source.model or not modalities:
        return {}
    count, width = state[f"{modalities[0]}/{_GRAPH}/vectors"].shape
    concepts = data.load_concepts(source.concepts, settings, count, train_split)
    if len(concepts.words) != count:
        raise UserError(
            f"{source.concepts or 'The training captions'} have {len(concepts.words)} concepts, "
            f"but config.model.*.head.concepts is {count}; set it to {len(concepts.words)}."
        )
    graph = {
        "vectors": _find_vectors(concepts, source, width, seed),
        "adjacency": concepts.adjacency(),
    }
    found = {
        f"{modality}/{_GRAPH}/{name}": array
        for modality in modalities
        for name, array in graph.items()
    }
    if _TABLE in state:
        words = data.load_vocabulary(settings, train_split)
        table = np.full(state[_TABLE].shape, count, np.int32)
        table[: len(words)] = concepts.concept_of_word(words)
        found[_TABLE] = table
    return found


def _find_vectors(concepts: Concepts, source: InitConfig, width: int, seed: int) -> np.ndarray:
    vectors, file, rows = concepts.vectors, source.word_vectors.file, {}
    if vectors is None:
        vectors = np.random.default_rng(seed).normal(size=(len(concepts.words), width))
        if file:
            rows = find_vectors(file, concepts.words, source.word_vectors.oov)
        if missing := len(concepts.words) - len(rows):
            logging.warning(
                "%d of %d concepts have random vectors; config.init_from.word_vectors.file names "
                "published ones.",
                *(missing, len(concepts.words)),
            )
    given = len(next(iter(rows.values()))) if rows else vectors.shape[1]
    if given != width:
        raise UserError(
            f"{file if rows else source.concepts} has vectors of {given} numbers, but "
            f"config.model.*.head.concept_width is {width}."
        )
    for place, row in rows.items():
        vectors[place] = row
    return vectors.astype(np.float32)
