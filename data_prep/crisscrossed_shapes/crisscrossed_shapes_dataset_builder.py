"""TFDS builder of crisscrossed_shapes, which is generated from a seed without any download."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import Record
from data_prep.crisscrossed_shapes.all_matches import find_matches
from data_prep.crisscrossed_shapes.captions import DESCRIBERS, SceneCaption, describe
from data_prep.crisscrossed_shapes.coherence import RELATIONS, relate
from data_prep.crisscrossed_shapes.graph_similarity import encode
from data_prep.crisscrossed_shapes.rendering import SIZE, png, render
from data_prep.crisscrossed_shapes.scene_graph import (
    COLORS,
    COLUMNS,
    ROWS,
    SHAPES,
    SIZES,
    Scene,
    full_content,
)
from data_prep.crisscrossed_shapes.scenes import make_scenes
from data_prep.crisscrossed_shapes.simulated_ratings import SimulatedRatings, rate_split
from data_prep.cxc.rating_files import KINDS
from data_prep.published_figures import Figure, Within
from data_prep.schema import (
    captioned_image_features,
    feature_vector,
    positive_features,
    rating_example,
    rating_features,
    sentence_pair_example,
    sentence_pair_features,
)

# Label column -> its values, which are also attributes of an item.
_CLASSES = {"shape": SHAPES, "color": COLORS}
# The attributes of an item that a row of `regions` has, each as 0 and 1.
_ATTRIBUTES = {**_CLASSES, "size": SIZES, "row": ROWS, "column": COLUMNS}
_WITH_TRAINING = ("images", "coherence", "objects", "regions")


class Builder(RandomAccessBuilder):
    """Rendered scenes with five captions each, and graded pairs as in Crisscrossed Captions."""

    VERSION = tfds.core.Version("1.1.0")
    REFERS_TO: ClassVar[tuple[str, ...]] = ("crisscrossed_shapes/images",)
    RELEASE_NOTES: ClassVar = {"1.0.0": "Initial release."}
    BUILDER_CONFIGS: ClassVar = [
        tfds.core.BuilderConfig(name="images", description="Images and captions."),
        tfds.core.BuilderConfig(name="ratings", description="Pairs rated by simulated raters."),
        tfds.core.BuilderConfig(
            name="coherence",
            description="Images with one caption each and its relations to the image.",
        ),
        tfds.core.BuilderConfig(
            name="rated_captions", description="The rated caption pairs, with both texts."
        ),
        tfds.core.BuilderConfig(
            name="matches", description="All images that a caption is true of, and vice versa."
        ),
        tfds.core.BuilderConfig(
            name="regions", description="Attributes of the objects of every image, and their names."
        ),
        tfds.core.BuilderConfig(
            name="objects", description="The images of one object, with its shape and color."
        ),
    ]
    SEED = 20
    CHECK_IMAGES = False
    SPLIT_SIZES: Mapping[str, int] = {"train": 6000, "validation": 1000, "test": 1000}

    def _features(self) -> tfds.features.FeaturesDict:
        image = tfds.features.Image(shape=(SIZE, SIZE, 3), encoding_format="png")
        if self.builder_config.name == "ratings":
            return rating_features()
        if self.builder_config.name == "matches":
            return positive_features()
        if self.builder_config.name == "rated_captions":
            return sentence_pair_features()
        if self.builder_config.name == "regions":
            rows = feature_vector(None, sum(map(len, _ATTRIBUTES.values())))
            return captioned_image_features(rows, tags=True)
        related = self.builder_config.name == "coherence"
        features = captioned_image_features(image, relations=len(RELATIONS) if related else 0)
        if self.builder_config.name == "objects":
            features = {**features, **dict.fromkeys(_CLASSES, np.int32)}
        return tfds.features.FeaturesDict(features)

    def _metadata(self) -> dict[str, Any]:
        if self.builder_config.name == "objects":
            return {name: list(values) for name, values in _CLASSES.items()}
        return {"relations": list(RELATIONS)} if self.builder_config.name == "coherence" else {}

    @classmethod
    def published_figures(cls, config: str) -> Mapping[str, Figure]:
        """See `RandomAccessBuilder`."""
        if config == "ratings":
            return {"* score with *": Within(0, 5)}
        if config == "rated_captions":
            return {"*/lowest score *": Within(0, 5), "*/highest score *": Within(0, 5)}
        if config == "objects":
            return {"*/captions of an image": "5"}
        in_fives = config in ("images", "regions")
        sizes: dict[str, Figure] = {
            f"{split}/records": size for split, size in cls.SPLIT_SIZES.items()
        }
        if config == "matches":
            each = {"direction=i2t": 1, "direction=t2i": DESCRIBERS}
            return {
                f"{split}/rows with {direction}": size * queries
                for split, size in cls.SPLIT_SIZES.items()
                for direction, queries in each.items()
                if split != "train"
            }
        return sizes | {"*/captions of an image": "5" if in_fives else "1"}

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record]]:
        del folder  # everything is drawn
        return {
            name: self._examples(split)
            for name, split in _draw_splits(self.SEED, *self.SPLIT_SIZES.items()).items()
            if self.builder_config.name in _WITH_TRAINING or name != "train"
        }

    def _examples(self, split: "_Split") -> Iterator[Record]:
        """Yields the examples of one split."""
        scenes, image_ids, first_id = split.scenes, split.image_ids, split.image_ids[0]
        captions = _captions(split)
        if self.builder_config.name == "matches":
            yield from _matches(first_id, scenes, captions)
            return
        if self.builder_config.name == "objects":
            yield from self._objects(image_ids, scenes, captions)
            return
        if self.builder_config.name == "regions":
            yield from _regions(image_ids, scenes, captions)
            return
        images = _pictures(split)
        if self.builder_config.name == "images":
            yield from _captioned_images(image_ids, images, captions)
            return
        if self.builder_config.name == "coherence":
            yield from self._coherent_pairs(image_ids, images, scenes, captions)
            return
        rng = np.random.default_rng((self.SEED, 3, first_id))
        rated = rate_split(scenes, captions, np.stack(images), rng)
        if self.builder_config.name == "ratings":
            yield from _rated_pairs(first_id, rated)
        else:
            yield from _rated_captions(captions, rated)

    def _objects(
        self,
        image_ids: Sequence[int],
        scenes: Sequence[Scene],
        captions: Sequence[Sequence[SceneCaption]],
    ) -> Iterator[Record]:
        """Yields the images of one object, as in `images`, with their classes."""
        one = [place for place, scene in enumerate(scenes) if len(scene.items) == 1]
        ids = [image_ids[place] for place in one]
        images = [
            render(scenes[place], np.random.default_rng((self.SEED, 1, image_id)))
            for place, image_id in zip(one, ids, strict=True)
        ]
        said = [captions[place] for place in one]
        for place, (key, example) in zip(one, _captioned_images(ids, images, said), strict=True):
            (item,) = scenes[place].items
            classes = {name: values.index(getattr(item, name)) for name, values in _CLASSES.items()}
            yield key, example | classes

    def _coherent_pairs(
        self,
        image_ids: Sequence[int],
        images: Sequence[np.ndarray],
        scenes: Sequence[Scene],
        captions: Sequence[Sequence[SceneCaption]],
    ) -> Iterator[Record]:
        """Yields every image with one caption; images take the describers in turn."""
        for place, image_id in enumerate(image_ids):
            describer = image_id % DESCRIBERS
            foreign = captions[place - 1][describer]
            rng = np.random.default_rng((self.SEED, 4, image_id))
            caption = relate(scenes[place], captions[place][describer], foreign, rng)
            yield (
                image_id,
                {
                    "image": png(images[place]),
                    "image_id": image_id,
                    "captions": [caption.text],
                    "caption_ids": [image_id * DESCRIBERS + describer],
                    "relations": np.array(caption.relations, np.int32),
                },
            )


@dataclasses.dataclass(frozen=True, eq=False)
class _Split:
    """The scenes of a split, with the ids of their images; compared by identity."""

    seed: int
    scenes: Sequence[Scene]
    image_ids: Sequence[int]


# One process builds `images` and then `ratings`, which has the last two splits of the same scenes.
@functools.lru_cache(maxsize=1)
def _draw_splits(seed: int, *sizes: tuple[str, int]) -> dict[str, _Split]:
    splits, first_id = {}, 0
    for name, scenes in make_scenes(seed, dict(sizes)).items():
        splits[name] = _Split(seed, scenes, range(first_id, first_id + len(scenes)))
        first_id += len(scenes)
    return splits


@functools.lru_cache(maxsize=2)
def _captions(split: _Split) -> list[list[SceneCaption]]:
    return [
        describe(scene, np.random.default_rng((split.seed, 2, image_id)))
        for image_id, scene in zip(split.image_ids, split.scenes, strict=True)
    ]


@functools.lru_cache(maxsize=2)
def _pictures(split: _Split) -> list[np.ndarray]:
    return [
        render(scene, np.random.default_rng((split.seed, 1, image_id)))
        for image_id, scene in zip(split.image_ids, split.scenes, strict=True)
    ]


def _captioned_images(
    image_ids: Sequence[int],
    images: Sequence[Any],
    captions: Sequence[Sequence[SceneCaption]],
    store: Callable[[Any], Any] = png,
) -> Iterator[Record]:
    for image_id, image, group in zip(image_ids, images, captions, strict=True):
        yield (
            image_id,
            {
                "image": store(image),
                "image_id": image_id,
                "captions": [caption.text for caption in group],
                "caption_ids": [image_id * DESCRIBERS + k for k in range(DESCRIBERS)],
            },
        )


def _regions(
    image_ids: Sequence[int],
    scenes: Sequence[Scene],
    captions: Sequence[Sequence[SceneCaption]],
) -> Iterator[Record]:
    """Yields a row of every item, as a detector would find it, and the names of all items."""
    for (key, example), scene in zip(
        _captioned_images(image_ids, scenes, captions, _attributes), scenes, strict=True
    ):
        names = [f"{item.color} {item.shape}" for item in scene.items]
        yield key, example | {"tags": " ".join(names)}


def _attributes(scene: Scene) -> np.ndarray:
    rows = [
        np.concatenate(
            [np.equal(values, getattr(item, name)) for name, values in _ATTRIBUTES.items()]
        )
        for item in scene.items
    ]
    return np.array(rows, np.float16)


def _matches(
    first_id: int, scenes: Sequence[Scene], captions: Sequence[Sequence[SceneCaption]]
) -> Iterator[Record]:
    """Yields every caption with the images that it is true of, and every image with its captions.

    A caption is true of its own image, so no list is empty.
    """
    said = encode([caption.content for group in captions for caption in group])
    shown = encode([full_content(scene) for scene in scenes])
    caption, image = find_matches(said, shown) + [[first_id * DESCRIBERS], [first_id]]
    for direction, query, positive in (("t2i", caption, image), ("i2t", image, caption)):
        order = np.argsort(query, kind="stable")
        queries, starts = np.unique(query[order], return_index=True)
        for query_id, ids in zip(queries, np.split(positive[order], starts[1:]), strict=True):
            yield (
                f"{direction}/{query_id}",
                {
                    "direction": direction,
                    "query_id": query_id,
                    "positive_ids": ids,
                    "unreachable_ids": (),
                },
            )


def _rated_captions(
    captions: Sequence[Sequence[SceneCaption]], rated_pairs: Iterable[SimulatedRatings]
) -> Iterator[Record]:
    """Yields the rated caption pairs; the set of a pair is its sampling method."""
    texts = [caption.text for group in captions for caption in group]
    key = itertools.count()
    for rated in rated_pairs:
        if rated.rating != "sts":
            continue
        for (i, j), score in zip(rated.pairs.tolist(), rated.scores, strict=True):
            pair_id, sentences = next(key), (texts[i], texts[j])
            yield pair_id, sentence_pair_example(pair_id, rated.method, sentences, score)


def _rated_pairs(first_id: int, rated_pairs: Iterable[SimulatedRatings]) -> Iterator[Record]:
    first_ids = {"image": first_id, "caption": first_id * DESCRIBERS}
    key = itertools.count()
    for rated in rated_pairs:
        left, right = (first_ids[side] for side in KINDS[rated.rating])
        for (i, j), scores, mean in zip(
            rated.pairs.tolist(), rated.rater_scores, rated.scores, strict=True
        ):
            yield (
                next(key),
                rating_example(rated.rating, left + i, right + j, mean, rated.method, scores),
            )
