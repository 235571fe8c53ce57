"""A real TFDS dataset that is built in a second: smooth pictures with two to seven captions."""

import io
import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import tensorflow_datasets as tfds

from data_prep import schema

SPLITS = {"train": (0, 37), "validation": (100, 11), "test": (200, 7)}
REGIONS = (3, 4)
_WORDS = ("a", "red", "ball", "rolls", "under", "the", "Café", "table", "playing", "dogs", "42!")


def picture(image_id: int) -> np.ndarray:
    """Picture of an image id, uint8 [H, W, 3], of odd and varying size."""
    rng = np.random.default_rng(image_id)
    height, width = rng.integers(33, 71, size=2)
    coarse = PIL.Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
    return np.asarray(coarse.resize((int(width), int(height)), PIL.Image.Resampling.BILINEAR))


def features(image_id: int) -> np.ndarray:
    """Region features of an image id, float16 [3, 4]."""
    return np.random.default_rng(image_id).normal(size=REGIONS).astype(np.float16)


def captions(image_id: int) -> dict[int, str]:
    """Captions of an image id by caption id."""
    rng = np.random.default_rng(image_id)
    texts = [" ".join(rng.choice(_WORDS, size=rng.integers(1, 9))) for _ in range(7)]
    return {10 * image_id + k: texts[k] for k in range(2 + image_id % 6)}


class Builder(schema.RandomAccessBuilder):
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar = [
        tfds.core.BuilderConfig(name=name) for name in ("images", "features", "ratings")
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        if self.builder_config.name == "ratings":
            info = schema.rating_features()
        elif self.builder_config.name == "features":
            info = schema.captioned_image_features(schema.feature_vector(*REGIONS))
        else:
            info = schema.captioned_image_features(tfds.features.Image(shape=(None, None, 3)))
        return tfds.core.DatasetInfo(builder=self, features=info, metadata=tfds.core.MetadataDict())

    def _splits(self, folder: pathlib.Path) -> dict[str, Any]:
        if self.builder_config.name == "ratings":
            return {"test": self._ratings()}
        return {split: self._examples(*where) for split, where in SPLITS.items()}

    def _examples(self, first: int, count: int) -> Iterator[tuple[int, dict[str, Any]]]:
        for image_id in range(first, first + count):
            if self.builder_config.name == "images":
                file = io.BytesIO()
                PIL.Image.fromarray(picture(image_id)).save(file, "PNG")
                file.seek(0)
            texts = captions(image_id)
            yield (
                image_id,
                {
                    "image": file if self.builder_config.name == "images" else features(image_id),
                    "image_id": image_id,
                    "captions": list(texts.values()),
                    "caption_ids": list(texts),
                },
            )

    def _ratings(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for k, task in enumerate(["sts", "sts", "sis", "sits"]):
            yield (
                k,
                {
                    "task": task,
                    "left_id": 2000 + k,
                    "right_id": 200 + k,
                    "score": 1.5 * k,
                    "method": f"method{k}",
                    "rater_scores": [1.0, 2.0],
                },
            )
