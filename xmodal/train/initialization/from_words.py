"""A run's table of word vectors, and the concepts of the head "consensus"."""

import numpy as np
from absl import logging

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data.text.concept_graph import Concepts
from xmodal.pretrained.word_vectors import find_vectors
from xmodal.train.sections import InitConfig, WordVectorsConfig
from xmodal.train.tree import TrainState, flatten

TABLE = "text/encoder/table"
_GRAPH = "constants/head/graph"
_CONCEPTS = "text/constants/head/concept_of_word"


def load_rows(
    state: TrainState, source: WordVectorsConfig, config: data.DataConfig, train_split: str
) -> dict[int, np.ndarray]:
    """Returns published vectors, such as GloVe's, by row of the word table; {} without a file.

    Args:
      state: shapes of the state they are for.
      source: `config.init_from.word_vectors`.
      config: `config.data`, whose vocabulary is looked up.
      train_split: `config.train_split`.
    """
    if not source.file:
        return {}
    table = state.flat_params().get(TABLE)
    if table is None:
        raise UserError(
            f"config.init_from.word_vectors.file={source.file!r}, but the text encoder has no word "
            "table."
        )
    words = data.load_vocabulary(config, train_split)
    rows = find_vectors(source.file, words, source.oov)
    width = len(next(iter(rows.values()), ()))
    if width != table.shape[1]:
        raise UserError(
            f"{source.file} has vectors of {width} numbers for {len(rows)} words of the "
            f"vocabulary, but config.model.text.encoder has a table of {table.shape[1]}."
        )
    logging.info("%s: %d of %d words of the vocabulary.", source.file, len(rows), len(words))
    return rows


def load_constants(
    state: TrainState, source: InitConfig, config: data.DataConfig, train_split: str, seed: int
) -> dict[str, np.ndarray]:
    """Returns the graph of concepts, and the words that name them, by path; {} without concepts.

    Vectors of concepts come from the concept file, else from `config.init_from.word_vectors`; those
    that neither has are drawn from N(0, 1).

    Args:
      state: shapes of the state they are for.
      source: `config.init_from`; a model that it names has constants of its own.
      config: `config.data`, whose vocabulary is looked up.
      train_split: `config.train_split`.
      seed: seed of the vectors that are drawn.
    """
    flat = flatten(state.model_state)
    graphs = [g for g in (f"image/{_GRAPH}", f"text/{_GRAPH}") if f"{g}/vectors" in flat]
    if source.model or not graphs:
        return {}
    count, width = flat[f"{graphs[0]}/vectors"].shape
    concepts = data.load_concepts(source.concepts, config, count, train_split)
    if len(concepts.words) != count:
        raise UserError(
            f"{source.concepts or 'The training captions'} have {len(concepts.words)} concepts, "
            f"but config.model.*.head.concepts is {count}; set it to {len(concepts.words)}."
        )
    vectors, adjacency = _find_vectors(concepts, source, width, seed), concepts.adjacency()
    found = {f"{graph}/vectors": vectors for graph in graphs}
    found |= {f"{graph}/adjacency": adjacency for graph in graphs}
    if _CONCEPTS in flat:
        words = data.load_vocabulary(config, train_split)
        found[_CONCEPTS] = np.full(flat[_CONCEPTS].shape, count, np.int32)
        found[_CONCEPTS][: len(words)] = concepts.concept_of_word(words)
    return found


def _find_vectors(concepts: Concepts, source: InitConfig, width: int, seed: int) -> np.ndarray:
    """The vectors of concepts, float32 [concepts, width]."""
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
