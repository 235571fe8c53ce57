"""A real TFDS dataset that builds in a second: smooth pictures with two to seven captions."""

import io
import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder

SPLITS = {"train": (0, 37), "validation": (100, 11), "test": (200, 7)}
REGIONS = (3, 4)
_WORDS = ("a", "red", "ball", "rolls", "under", "the", "Café", "table", "playing", "dogs", "42!")


def picture(image_id: int) -> np.ndarray:
    """Picture for an image id, uint8 [H, W, 3], with odd, varying sizes."""
    rng = np.random.default_rng(image_id)
    height, width = rng.integers(33, 71, size=2)
    coarse = PIL.Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
    return np.asarray(coarse.resize((int(width), int(height)), PIL.Image.Resampling.BILINEAR))


def features(image_id: int) -> np.ndarray:
    """Region features of an image id, float16 [3, 4]."""
    return np.random.default_rng(image_id).normal(size=REGIONS).astype(np.float16)


def regions(image_id: int) -> np.ndarray:
    """Features of one to five regions of an image id, float16 [R, 4]."""
    shape = (1 + image_id % 5, REGIONS[1])
    return np.random.default_rng(image_id).normal(size=shape).astype(np.float16)


def relations(image_id: int) -> list[int]:
    """Two labels of an image id."""
    return [image_id % 2, image_id // 2 % 2]


def categories(image_id: int) -> list[int]:
    """Three objects of an image id, as 0 and 1."""
    return [image_id % 2, image_id % 3 % 2, 1]


def captions(image_id: int) -> dict[int, str]:
    """Captions of an image id by caption id."""
    rng = np.random.default_rng(image_id)
    texts = [" ".join(rng.choice(_WORDS, size=rng.integers(1, 9))) for _ in range(7)]
    return {10 * image_id + k: texts[k] for k in range(2 + image_id % 6)}


class Builder(RandomAccessBuilder):
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar = [
        tfds.core.BuilderConfig(name=name)
        for name in ("images", "features", "regions", "pairs", "ratings", "matches")
    ]
    UNIQUE_IDS: ClassVar = ("image_id", "caption_ids", "pair_id")

    def _info(self) -> tfds.core.DatasetInfo:
        image = {
            "images": tfds.features.Image(shape=(None, None, 3)),
            "features": schema.feature_vector(*REGIONS),
            "regions": schema.feature_vector(None, REGIONS[1]),
        }
        config, metadata = self.builder_config.name, tfds.core.MetadataDict()
        if config == "ratings":
            info = schema.rating_features()
        elif config == "matches":
            info = schema.positive_features()
        elif config == "pairs":
            info = schema.sentence_pair_features()
        elif config == "regions":
            info = schema.captioned_image_features(image[config], relations=2, categories=True)
            metadata["relations"] = ["Visible", "Story"]
        else:
            info = schema.captioned_image_features(image[config])
        return tfds.core.DatasetInfo(builder=self, features=info, metadata=metadata)

    def _splits(self, folder: pathlib.Path) -> dict[str, Any]:
        others = {"ratings": _ratings, "matches": _matches, "pairs": _pairs}
        if self.builder_config.name in others:
            return {"test": others[self.builder_config.name]()}
        return {split: self._examples(*where) for split, where in SPLITS.items()}

    def _examples(self, first: int, count: int) -> Iterator[tuple[int, dict[str, Any]]]:
        for image_id in range(first, first + count):
            texts = captions(image_id)
            example = {
                "image_id": image_id,
                "captions": list(texts.values()),
                "caption_ids": list(texts),
            }
            if self.builder_config.name == "images":
                example["image"] = io.BytesIO()
                PIL.Image.fromarray(picture(image_id)).save(example["image"], "PNG")
                example["image"].seek(0)
            elif self.builder_config.name == "features":
                example["image"] = features(image_id)
            else:
                example |= {"image": regions(image_id), "relations": relations(image_id)}
                # Known for all images of one split, and for some of another.
                is_known = first == SPLITS["test"][0] or image_id % 2
                example["categories"] = categories(image_id) if is_known else []
            yield image_id, example


def _ratings() -> Iterator[tuple[int, dict[str, Any]]]:
    for k, rating in enumerate(["sts", "sts", "sis", "sits"]):
        ids = {"left_id": 2000 + k, "right_id": 200 + k, "method": f"method{k}"}
        yield k, {"rating": rating, "score": 1.5 * k, "rater_scores": [1.0, 2.0], **ids}


def _matches() -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields lists of one to three positives."""
    positives = {("i2t", 200): (2001, 2010), ("t2i", 2001): (200,), ("t2i", 2010): (200, 202, 201)}
    for number, ((direction, query), ids) in enumerate(positives.items()):
        lists = {"positive_ids": ids, "unreachable_ids": ()}
        yield number, {"direction": direction, "query_id": query, **lists}


def _pairs() -> Iterator[tuple[int, dict[str, Any]]]:
    for k in range(4):
        texts = {"sentence1": f"a red ball {k}", "sentence2": "the table"}
        years = {"year": 2012, "dataset": f"set{k % 2}", "year_average": 2012}
        yield k, {"pair_id": 50 + k, "score": 1.5 * k, **texts, **years}
