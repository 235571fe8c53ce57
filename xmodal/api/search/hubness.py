"""Images that a model was trained on, and a correction that keeps them from crowding out others.

A model knows the images that it was trained on so well that they are near to many texts. So the
scores of every image are lowered by how near it is to the captions of the training.
"""

import concurrent.futures
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from data_prep.same_text import content_hash
from xmodal.api.model import Model
from xmodal.api.search.nearest import ExactSearch, Scorer

BANK = 10_000
"""Captions of the training that are compared with images, at most; every n-th of more."""
_BLOCK = 1024  # Items compared at a time.


class TrainingItems(NamedTuple):
    """What a model was trained on.

    Attributes:
      images: hashes of the images as they are stored in the dataset.
      captions: texts.
    """

    images: frozenset[int]
    captions: list[str]

    def has_trained_on(self, pictures: Iterable[Any]) -> np.ndarray:
        """Returns which pictures were trained on, bool [N]: paths, or contents of files."""
        with concurrent.futures.ThreadPoolExecutor() as workers:
            return np.fromiter(workers.map(self._has, pictures), bool)

    def _has(self, picture: Any) -> bool:
        from data_prep.building.image_check import checked_image
        from data_prep.building.record_counts import BadImageError

        try:
            data = picture if isinstance(picture, bytes) else pathlib.Path(picture).read_bytes()
            # Datasets store most files as they are, and convert rotated and rare ones.
            return content_hash(data) in self.images or (
                content_hash(checked_image(data, upright=True)) in self.images
            )
        except (OSError, TypeError, BadImageError):  # Pixels and features have no file.
            return False


def read_training_items(model: Model) -> TrainingItems | None:
    """Returns the items of a run on a user's images; None for any other model."""
    if model.step is None or "image" not in model.modalities:
        return None
    from xmodal.train.folder import run_folder  # With orbax, which a bundle does not need.

    found = run_folder.load_training_items(model.source)
    return TrainingItems(frozenset(found["images"]), found["captions"]) if found else None


def compute_penalties(
    scorer: Scorer, bank: np.ndarray, vectors: np.ndarray, count: int
) -> np.ndarray:
    """Returns what is subtracted from the scores of items with texts, float32 [N], at least 0.

    Ranks are those of CSLS (Conneau et al. 2018, https://arxiv.org/abs/1710.04087, section 2.3): an
    item loses half its mean score with the nearest texts of the bank. The other half of CSLS is
    equal for all items.

    Args:
      scorer: compares texts with items by cosines.
      bank: texts, float32 [M, D] or [M, K, D].
      vectors: items, float32 [N, D] or [N, K, D].
      count: number of nearest texts; that of the captions of an image is a good one.
    """
    search = ExactSearch(scorer, bank, np.zeros(len(bank), np.float32))
    blocks = np.split(vectors, range(_BLOCK, len(vectors), _BLOCK))
    halves = np.concatenate([search(block, count)[0].mean(axis=1) for block in blocks]) / 2
    return (halves - halves.min()).astype(np.float32)
