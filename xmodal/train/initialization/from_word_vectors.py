"""A run's table of word vectors from a published file, such as GloVe's."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.core.tree_paths import path_of
from xmodal.pretrained.word_vectors import find_vectors
from xmodal.train.sections import InitConfig
from xmodal.train.step.state import TrainState
from xmodal.train.tree import flatten, matches

if TYPE_CHECKING:
    from xmodal.data import DataConfig

TABLE = "text/encoder/table"
_WHERE = "config.init_from.word_vectors"


def check_file(source: InitConfig, has_text: bool) -> None:
    """Raises an error if word vectors are missing or have no use; reads none.

    Args:
      source: `config.init_from`.
      has_text: whether the model has a text tower.
    """
    path = source.word_vectors.file
    if not path:
        return
    if not os.path.exists(path):
        raise UserError(f"{_WHERE}.file={path!r} does not exist.")
    if not has_text:
        raise UserError(f"{_WHERE}.file={path!r}, but config.model.text is None.")
    others = [source.model, source.towers.text]
    if source.run and matches(source.include, TABLE):
        others.append(source.run)
    if found := [other for other in others if other]:
        raise UserError(
            f"{_WHERE}.file={path!r} provides {TABLE}, and so does {found[0]!r} of "
            "config.init_from; remove one."
        )


def load_rows(
    shapes: TrainState, source: InitConfig, settings: "DataConfig", train_split: str = "train"
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
    table = flatten(shapes.all_params()).get(TABLE)
    if table is None:
        raise UserError(f"{_WHERE}.file={path!r}, but the text encoder has no word table.")
    from xmodal import data  # Slow to import, and reading a model does not need it.

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
    if not rows:
        return state
    at, vectors = np.array(list(rows)), np.stack(list(rows.values()))

    def fill(keys: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        if path_of(keys) != TABLE:
            return leaf
        fill_rows = jax.jit(lambda table, at, x: table.at[at].set(x), out_shardings=leaf.sharding)
        return fill_rows(leaf, at, vectors)

    params, frozen = (
        jax.tree_util.tree_map_with_path(fill, tree) for tree in (state.params, state.frozen)
    )
    return dataclasses.replace(state, params=params, frozen=frozen)
