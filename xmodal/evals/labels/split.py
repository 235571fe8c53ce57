"""The labels of a split, as evaluators receive them, and what its captions share."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from data_prep.same_text import text_key
from xmodal.evals.labels.definitions import PUBLIC

_UNKNOWN = "unknown"  # The hash of a dataset that was prepared without hashes.


class Split(Protocol):
    """The labels of a prepared dataset's split.

    Attributes:
      name: name of the dataset.
      title: its display name, see `data.title_of`.
      image_ids: int [N].
      caption_ids: int [M].
      caption_image_ids: int [M], the image of every caption.
      caption_texts: M strings.
      image_hashes: integers [N], equal for equal pictures; empty if the dataset stores none.
      ratings: see `labels.types.Labels`.
      lists: see `labels.types.Labels`; may be read at the first use.
      categories: see `labels.types.Labels`, as for `caption_categories` and `partial`.
      split: name of the split.
      hashes: hashes of the records, by name.
      labels: label columns by name, one row per record, in the order of `image_ids`; for a dataset
        without images, these are the ids of its records.
      label_names: names of the values of label columns, if known.
    """

    name: str
    title: str
    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_image_ids: np.ndarray
    caption_texts: Sequence[str]
    image_hashes: np.ndarray
    ratings: Mapping[str, Mapping[str, np.ndarray]]
    lists: Mapping[str, Mapping[str, tuple[np.ndarray, ...]]]
    categories: np.ndarray | None
    caption_categories: np.ndarray | None
    partial: str
    split: str
    hashes: Mapping[str, str]
    labels: Mapping[str, np.ndarray]
    label_names: Mapping[str, Sequence[str]]

    def beside(self, split: str) -> "Split":
        """Returns another split of the same dataset, read in the same way."""


def name_image(split: Split, image_id: int) -> str:
    """Returns the display name of an image: its file, or its id if the dataset has no names."""
    files = split.labels.get("picture")
    rows = np.flatnonzero(split.image_ids == image_id)
    return f"image {image_id}" if files is None or not len(rows) else str(files[rows[0]])


def different_records(records: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Returns the names of `Split.hashes` under which both have records, and not the same."""
    return [
        name
        for name, digits in records.items()
        if _UNKNOWN not in (pair := {digits, others.get(name, digits)}) and len(pair) > 1
    ]


def number_texts(texts: Sequence[str]) -> np.ndarray:
    """Returns a number for every text, int64 [M], equal for copies, see `text_key`."""
    numbers: dict[str, int] = {}
    keys = (text_key(text) or text.strip() for text in texts)
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def describe_texts(dataset: str, texts: np.ndarray | None, image_ids: np.ndarray) -> list[str]:
    """Returns a note on captions that have the text of another image's caption, if there are any.

    Args:
      dataset: its name.
      texts: see `Labels.texts`.
      image_ids: int [M], the image of every caption.
    """
    if texts is None:
        return []
    of_text = np.unique(np.stack([texts, image_ids]), axis=1)[0]
    shared = int(np.sum(np.bincount(of_text)[texts] > 1))
    rule = "they are one text, and all images that have it are its positives"
    if dataset in PUBLIC:
        rule = "the published protocol counts its own positives alone, so a perfect model may miss"
    found = f"{shared:,} of {len(texts):,} captions have the text of another image's caption"
    return [f"{found} (up to case, spacing and punctuation): {rule}."] * bool(shared)
