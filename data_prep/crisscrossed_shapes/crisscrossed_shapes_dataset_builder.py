"""TFDS builder of crisscrossed_shapes: everything is drawn from a seed, nothing is downloaded."""

import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.records import Record
from data_prep.crisscrossed_shapes.captions import DESCRIBERS, Caption, describe
from data_prep.crisscrossed_shapes.graph import Scene
from data_prep.crisscrossed_shapes.ratings import rate_split
from data_prep.crisscrossed_shapes.rendering import SIZE, png, render
from data_prep.crisscrossed_shapes.scenes import make_scenes
from data_prep.published import Figure, Within
from data_prep.schema import RandomAccessBuilder, captioned_image_features, rating_features


class Builder(RandomAccessBuilder):
    """Rendered scenes with five captions each, and graded pairs as in Crisscrossed Captions."""

    VERSION = tfds.core.Version("1.0.0")
    REFERS_TO: ClassVar[tuple[str, ...]] = ("crisscrossed_shapes/images",)
    RELEASE_NOTES: ClassVar = {"1.0.0": "Initial release."}
    BUILDER_CONFIGS: ClassVar = [
        tfds.core.BuilderConfig(name="images", description="Images and captions."),
        tfds.core.BuilderConfig(name="ratings", description="Pairs rated by simulated raters."),
    ]
    SEED = 20
    CHECK_IMAGES = False
    SPLIT_SIZES: Mapping[str, int] = {"train": 6000, "validation": 1000, "test": 1000}

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name == "ratings":
            return rating_features()
        return captioned_image_features(
            tfds.features.Image(shape=(SIZE, SIZE, 3), encoding_format="png")
        )

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`."""
        if config == "ratings":
            return {"* score with *": Within(0, 5)}
        sizes = {f"{split}/records": size for split, size in cls.SPLIT_SIZES.items()}
        return sizes | {"*/captions of an image": "5"}

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record]]:
        del folder  # everything is drawn
        first_ids = itertools.accumulate(self.SPLIT_SIZES.values(), initial=0)
        splits = zip(make_scenes(self.SEED, self.SPLIT_SIZES).items(), first_ids, strict=False)
        return {
            split: self._examples(scenes, first_id)
            for (split, scenes), first_id in splits
            if self.builder_config.name == "images" or split != "train"
        }

    def _examples(self, scenes: Sequence[Scene], first_id: int) -> Iterator[Record]:
        """Yields the examples of one split, whose images are numbered from `first_id`."""
        image_ids = range(first_id, first_id + len(scenes))
        images = [
            render(scene, np.random.default_rng((self.SEED, 1, image_id)))
            for image_id, scene in zip(image_ids, scenes, strict=True)
        ]
        captions = [
            describe(scene, np.random.default_rng((self.SEED, 2, image_id)))
            for image_id, scene in zip(image_ids, scenes, strict=True)
        ]
        if self.builder_config.name == "images":
            yield from _captioned_images(image_ids, images, captions)
        else:
            rng = np.random.default_rng((self.SEED, 3, first_id))
            yield from _rated_pairs(first_id, scenes, images, captions, rng)


def _captioned_images(
    image_ids: Sequence[int], images: Sequence[np.ndarray], captions: Sequence[Sequence[Caption]]
) -> Iterator[Record]:
    for image_id, image, group in zip(image_ids, images, captions, strict=True):
        yield (
            image_id,
            {
                "image": png(image),
                "image_id": image_id,
                "captions": [caption.text for caption in group],
                "caption_ids": [image_id * DESCRIBERS + k for k in range(DESCRIBERS)],
            },
        )


def _rated_pairs(
    first_id: int,
    scenes: Sequence[Scene],
    images: Sequence[np.ndarray],
    captions: Sequence[Sequence[Caption]],
    rng: np.random.Generator,
) -> Iterator[Record]:
    first_ids = {"image": first_id, "caption": first_id * DESCRIBERS}
    sides = {
        "sts": ("caption", "caption"),
        "sis": ("image", "image"),
        "sits": ("caption", "image"),
    }
    key = itertools.count()
    for rated in rate_split(scenes, captions, np.stack(images), rng):
        left, right = (first_ids[side] for side in sides[rated.task])
        for (i, j), scores, mean in zip(
            rated.pairs.tolist(), rated.rater_scores, rated.scores, strict=True
        ):
            yield (
                next(key),
                {
                    "task": rated.task,
                    "left_id": left + i,
                    "right_id": right + j,
                    "score": mean,
                    "method": rated.method,
                    "rater_scores": scores,
                },
            )
