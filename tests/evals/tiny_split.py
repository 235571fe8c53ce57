"""A split of four captioned images, and a model that looks vectors up."""

import dataclasses
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np

# One axis per image; the last caption (of image 20) points at image 30 instead.
IMAGES = np.diag([4.0, 3.0, 2.0, 1.0]).astype(np.float32)
CAPTIONS = np.eye(4, dtype=np.float32)[[0, 0, 0, 1, 1, 2, 2, 2]]
PARAMS = {"image": jnp.asarray(IMAGES), "text": jnp.asarray(CAPTIONS)}


def rated(rows):
    left, right, scores = zip(*rows, strict=True)
    return {
        "left_ids": np.array(left, np.int32),
        "right_ids": np.array(right, np.int32),
        "scores": np.array(scores, np.float32),
        "methods": np.array(["any"] * len(rows)),
    }


IDS = {
    "image_ids": [40, 10, 30, 20],
    "caption_ids": [9, 8, 7, 6, 5, 4, 3, 2],
    "caption_image_ids": [40, 40, 40, 10, 10, 30, 30, 20],
}


def ids(name):
    return lambda: np.array(IDS[name], np.int32)


@dataclasses.dataclass
class TinySplit:
    """Four images with three, two, two and one captions; ids are neither dense nor sorted."""

    name: str = "crisscrossed_shapes"
    title: str = "crisscrossed_shapes"
    split: str = "test"
    image_ids: np.ndarray = dataclasses.field(default_factory=ids("image_ids"))
    caption_ids: np.ndarray = dataclasses.field(default_factory=ids("caption_ids"))
    caption_image_ids: np.ndarray = dataclasses.field(default_factory=ids("caption_image_ids"))
    ratings: dict = dataclasses.field(
        default_factory=lambda: {
            "sts": rated([(2, 3, 3.0), (9, 8, 1.0), (7, 6, 2.9), (5, 4, 0.5)]),
            "sis": rated([(20, 30, 2.5), (30, 20, 2.4), (10, 40, 2.0)]),
            "sits": rated([(9, 40, 2.0), (2, 30, 3.5), (6, 40, 1.0), (3, 20, 2.0), (4, 10, 0.0)]),
        }
    )
    lists: dict = dataclasses.field(default_factory=dict)
    categories: None = None
    caption_categories: None = None
    partial: str = ""
    image_hashes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    hashes: dict = dataclasses.field(default_factory=dict)
    labels: dict = dataclasses.field(default_factory=dict)
    label_names: dict = dataclasses.field(default_factory=dict)
    modalities: tuple = ("image", "text")

    @property
    def caption_texts(self):
        return [f"caption {number}" for number in self.caption_ids]

    @property
    def caption_lengths(self):
        return np.ones(len(self.caption_ids), np.int32)

    def images(self, batch_size, rows):
        content = np.arange(len(self.image_ids), dtype=np.uint8)[:, None, None, None]
        for start in range(0, len(rows), batch_size):
            at = rows[start : start + batch_size]
            yield {"image": content[at], "image_id": self.image_ids[at]}

    def captions(self, batch_size, rows, length):
        """Token 0 of a caption is its number; all others are 1."""
        content = np.arange(len(self.caption_ids), dtype=np.int32)[:, None]
        content = np.pad(content, [(0, 0), (0, length - 1)], constant_values=1)
        for start in range(0, len(rows), batch_size):
            at = rows[start : start + batch_size]
            yield {
                "text_ids": content[at],
                "text_mask": np.ones_like(content[at]),
                "caption_id": self.caption_ids[at],
                "image_id": self.caption_image_ids[at],
            }


def look_up(modality, params, model_state, columns):
    """Looks up vectors in a table of parameters by the content of an item."""
    at = columns["text_ids"][:, 0] if modality == "text" else columns["image"][:, 0, 0, 0]
    return SimpleNamespace(vector=params[modality][at].astype(jnp.bfloat16), log_sigma=None)
