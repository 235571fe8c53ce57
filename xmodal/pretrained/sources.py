"""Readers of published weights: {name: array} from whatever lies at a path."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Source:
    """Weights as they were published.

    Attributes:
      path: where they lie.
      format: name of the format they were read as.
      arrays: the names they have in the file -> arrays.
      files: contents of small files beside them, by name: `config.json`, `bert_config.json`,
        `vocab.txt`, `1_Pooling/config.json`, ...; parsed where the name ends in `.json`.
    """

    path: str
    format: str
    arrays: Mapping[str, np.ndarray]
    files: Mapping[str, Any]


def load_source(path: str | os.PathLike) -> Source:
    """Reads all arrays at `path`, local or gs://, in the format they are found to be in."""
    raise NotImplementedError
