"""Captions of equal texts."""

from collections.abc import Sequence

import numpy as np

from data_prep.same_text import text_key
from xmodal.evals.labels.definitions import PUBLIC


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
