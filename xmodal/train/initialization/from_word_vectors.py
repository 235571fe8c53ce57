"""A run's table of word vectors from a published file, such as GloVe's."""

import os

import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.pretrained.word_vectors import find_vectors
from xmodal.train.sections import InitConfig
from xmodal.train.tree import TrainState, matches, replace_arrays

TABLE = "text/encoder/table"
_WHERE = "config.init_from.word_vectors"


def load_rows(
    shapes: TrainState, source: InitConfig, settings: data.DataConfig, train_split: str = "train"
) -> dict[int, np.ndarray]:
    """Returns the file's vectors of words in the vocabulary, by row of the table.

    Args:
      shapes: shapes of the state they are for.
      source: `config.init_from`.
      settings: `config.data`, whose vocabulary is looked up.
      train_split: `config.train_split`, from which it may be learned.
    """
    path = source.word_vectors.file
    if not path:
        return {}
    if not os.path.exists(path):
        raise UserError(f"{_WHERE}.file={path!r} does not exist.")
    table = shapes.flat_params().get(TABLE)
    if table is None:
        raise UserError(f"{_WHERE}.file={path!r}, but the text encoder has no word table.")
    others = [source.model, source.towers.text]
    others += [source.run] if matches(source.include, TABLE) else []
    if found := [other for other in others if other]:
        raise UserError(
            f"{_WHERE}.file={path!r} provides {TABLE}, and so does {found[0]!r} of "
            "config.init_from; remove one."
        )
    words = data.load_vocabulary(settings, train_split)
    rows = find_vectors(path, words, source.word_vectors.oov)
    if not rows:
        raise UserError(f"{path} has none of the {len(words):,} words of the vocabulary.")
    width = len(next(iter(rows.values())))
    if width != table.shape[1]:
        raise UserError(
            f"{path} has vectors of {width} numbers, but config.model.text.encoder has a table "
            f"of {table.shape[1]}."
        )
    logging.info("%s: %d of %d words of the vocabulary.", path, len(rows), len(words))
    return rows


def place(state: TrainState, rows: dict[int, np.ndarray]) -> TrainState:
    """Returns the state with these rows in its table; all others keep their random values."""
    table = state.flat_params()[TABLE]
    filled = np.array(mesh_lib.to_host(table, table.sharding.mesh))
    filled[list(rows)] = list(rows.values())
    return replace_arrays(state, {TABLE: filled})
