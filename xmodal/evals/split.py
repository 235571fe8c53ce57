"""The labels of a split, as every evaluator takes them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np


class Split(Protocol):
    """The labels of a prepared dataset's split.

    Attributes:
      name: of the dataset.
      image_ids: int [N].
      caption_ids: int [M].
      caption_image_ids: int [M], the image of every caption.
      caption_texts: M texts.
      ratings: see `boards.types.Labels`.
      lists: see `boards.types.Labels`; may be read at the first use.
      categories: see `boards.types.Labels`; so for `caption_categories` and `partial`.
      split: name of the split.
      hashes: of the records, by name.
      labels: label columns by name, one row per record, in the order of `image_ids`; a dataset
        without images has the ids of its records there.
      label_names: names of the values of label columns, as far as they are known.
    """

    name: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_image_ids: np.ndarray
    caption_texts: Sequence[str]
    ratings: Mapping[str, Mapping[str, np.ndarray]]
    lists: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]
    categories: np.ndarray | None
    caption_categories: np.ndarray | None
    partial: str
    split: str
    hashes: Mapping[str, str]
    labels: Mapping[str, np.ndarray]
    label_names: Mapping[str, Sequence[str]]
