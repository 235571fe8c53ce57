"""Images that a model was trained on, and a correction that keeps them from crowding out others.

A model knows the images that it was trained on so well that they are near to many texts. So the
scores of every image are lowered by how near it is to the captions of the training.
"""

import concurrent.futures
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from data_prep.same_text import content_hash
from xmodal.api.model import Model
from xmodal.api.search.nearest import Scorer

_BANK = 10_000  # Captions at most; one per image, if images have several.
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
        if not isinstance(picture, str | os.PathLike | bytes):
            return False  # Pixels and features have no file.
        from data_prep.building.image_check import checked_image
        from data_prep.building.record_counts import BadImageError

        try:
            if not isinstance(picture, bytes):
                with open(picture, "rb") as file:
                    picture = file.read()
            # Datasets store most files as they are, and convert rotated and rare ones.
            return content_hash(picture) in self.images or (
                content_hash(checked_image(picture, upright=True)) in self.images
            )
        except (OSError, BadImageError):
            return False


def read_training_items(model: Model) -> TrainingItems | None:
    """Returns the items of a run on a user's images; None for any other model."""
    if model.step is None or "image" not in model.modalities:
        return None
    from xmodal.train.folder import run_folder  # With orbax, which a bundle does not need.

    found = run_folder.load_training_items(model.source)
    return TrainingItems(frozenset(found["images"]), found["captions"]) if found else None


def embed_bank(model: Model, items: TrainingItems) -> np.ndarray:
    """Returns the embeddings of the captions or of every n-th one, [M, D] or [M, K, D]."""
    return np.asarray(model.embed_texts(items.captions[:: -(-len(items.captions) // _BANK)]))


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
    texts = scorer.prepare(jnp.asarray(scorer.place(bank)))

    @jax.jit
    def nearest(items: Any) -> jax.Array:
        return jax.lax.top_k(scorer.score(texts, items).T, count)[0].mean(axis=1)

    blocks = np.split(vectors, range(_BLOCK, len(vectors), _BLOCK))
    found = [nearest(scorer.prepare(jnp.asarray(scorer.place(block)))) for block in blocks]
    halves = np.concatenate(found) / 2
    return (halves - halves.min()).astype(np.float32)
