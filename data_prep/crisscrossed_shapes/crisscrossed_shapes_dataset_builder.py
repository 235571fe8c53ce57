"""TFDS builder of crisscrossed_shapes, which is generated from a seed without any download."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import Record
from data_prep.crisscrossed_shapes import scene_graph
from data_prep.crisscrossed_shapes.captions import DESCRIBERS, SceneCaption, describe
from data_prep.crisscrossed_shapes.coherence import RELATIONS, relate
from data_prep.crisscrossed_shapes.graph_similarity import ITEM_VALUES, encode, find_matches
from data_prep.crisscrossed_shapes.rendering import SIZE, png, render
from data_prep.crisscrossed_shapes.simulated_ratings import rate_split
from data_prep.cxc.rating_files import KINDS

# Label column -> its values, which are also attributes of an item.
_CLASSES = {"shape": scene_graph.SHAPES, "color": scene_graph.COLORS}
# Configs of the validation and test split alone -> their features.
_PAIRS = {
    "ratings": schema.rating_features,
    "rated_captions": schema.sentence_pair_features,
    "matches": schema.positive_features,
}


class Builder(RandomAccessBuilder):
    """Rendered scenes with five captions each, and graded pairs as in Crisscrossed Captions."""

    VERSION = tfds.core.Version("1.1.0")
    BUILDER_CONFIGS = configs(
        images="Images and captions.",
        ratings="Pairs rated by simulated raters.",
        coherence="Images with one caption each and its relations to the image.",
        rated_captions="The rated caption pairs, with both texts.",
        matches="All images that a caption is true of, and vice versa.",
        regions="Attributes of the objects of every image, and their names.",
        objects="The images of one object, with its shape and color.",
    )
    SEED = 20
    CHECK_IMAGES = False
    SPLIT_SIZES: Mapping[str, int] = {"train": 6000, "validation": 1000, "test": 1000}

    def _features(self) -> tfds.features.FeaturesDict:
        config = self.builder_config.name
        if config in _PAIRS:
            return _PAIRS[config]()
        if config == "regions":
            rows = schema.feature_vector(None, sum(map(len, ITEM_VALUES.values())))
            return schema.captioned_image_features(rows, tags=True)
        image = tfds.features.Image(shape=(SIZE, SIZE, 3), encoding_format="png")
        relations = len(RELATIONS) if config == "coherence" else 0
        labels = dict.fromkeys(_CLASSES, np.int32) if config == "objects" else {}
        features = schema.captioned_image_features(image, relations=relations)
        return tfds.features.FeaturesDict({**features, **labels})

    def _metadata(self) -> dict[str, Any]:
        if self.builder_config.name == "objects":
            return {name: list(values) for name, values in _CLASSES.items()}
        return {"relations": list(RELATIONS)} if self.builder_config.name == "coherence" else {}

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record]]:
        config = self.builder_config.name
        return {
            name: _pairs(split, config) if config in _PAIRS else _captioned(split, config)
            for name, split in _draw_splits(self.SEED, *self.SPLIT_SIZES.items()).items()
            if config not in _PAIRS or name != "train"
        }


@dataclasses.dataclass(frozen=True, eq=False)
class _Split:
    """The scenes of a split, with the ids of their images; compared by identity."""

    seed: int
    scenes: Sequence[scene_graph.Scene]
    image_ids: Sequence[int]


# One process builds `images` and then `ratings`, which has the last two splits of the same scenes.
@functools.lru_cache(maxsize=1)
def _draw_splits(seed: int, *sizes: tuple[str, int]) -> dict[str, _Split]:
    splits, first_id = {}, 0
    for name, scenes in scene_graph.make_scenes(seed, dict(sizes)).items():
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
    return [_draw(split, *each) for each in zip(split.image_ids, split.scenes, strict=True)]


def _captioned(split: _Split, config: str) -> Iterator[Record]:
    """Yields the images of a split, each with its captions and the columns of a config."""
    captions = _captions(split)
    # For `objects`, few images are drawn.
    pictures = _pictures(split) if config in ("images", "coherence") else None
    for place, (image_id, scene) in enumerate(zip(split.image_ids, split.scenes, strict=True)):
        if config == "objects" and len(scene.items) > 1:
            continue
        said = list(enumerate((each.text for each in captions[place]), image_id * DESCRIBERS))
        added: dict[str, Any] = {}
        if config == "regions":
            # A row of every item, as a detector would find it, and the names of all items.
            names = [f"{item.color} {item.shape}" for item in scene.items]
            added = {"image": _attributes(scene), "tags": " ".join(names)}
        else:
            drawn = pictures[place] if pictures else _draw(split, image_id, scene)
            added = {"image": png(drawn)}
        if config == "objects":
            (item,) = scene.items
            added |= {name: values.index(getattr(item, name)) for name, values in _CLASSES.items()}
        elif config == "coherence":
            # Every image has one caption; images take the describers in turn.
            describer = image_id % DESCRIBERS
            foreign = captions[place - 1][describer]
            rng = np.random.default_rng((split.seed, 4, image_id))
            text, related = relate(scene, captions[place][describer], foreign, rng)
            said = [(image_id * DESCRIBERS + describer, text)]
            added["relations"] = np.array(related, np.int32)
        yield image_id, schema.captioned_example(image_id, said, **added)


def _draw(split: _Split, image_id: int, scene: scene_graph.Scene) -> np.ndarray:
    return render(scene, np.random.default_rng((split.seed, 1, image_id)))


def _attributes(scene: scene_graph.Scene) -> np.ndarray:
    """The attributes of every item, each as 0 and 1."""
    rows = [
        [getattr(item, name) == value for name, values in ITEM_VALUES.items() for value in values]
        for item in scene.items
    ]
    return np.array(rows, np.float16)


def _pairs(split: _Split, config: str) -> Iterator[Record]:
    """Yields the matches of a split, or its rated pairs."""
    captions, first_id = _captions(split), split.image_ids[0]
    if config == "matches":
        yield from _matches(first_id, split.scenes, captions)
        return
    rng = np.random.default_rng((split.seed, 3, first_id))
    key = itertools.count()
    texts = [caption.text for group in captions for caption in group]
    first_ids = {"image": first_id, "caption": first_id * DESCRIBERS}
    for rated in rate_split(split.scenes, captions, np.stack(_pictures(split)), rng):
        left, right = (first_ids[side] for side in KINDS[rated.rating])
        for (i, j), scores, mean in zip(
            rated.pairs.tolist(), rated.rater_scores, rated.scores, strict=True
        ):
            if config == "ratings":
                example = schema.rating_example(
                    rated.rating, left + i, right + j, mean, rated.method, scores
                )
                yield next(key), example
            elif rated.rating == "sts":  # The set of a pair is its sampling method.
                number = next(key)
                sentences = texts[i], texts[j]
                yield number, schema.sentence_pair_example(number, rated.method, sentences, mean)


def _matches(
    first_id: int, scenes: Sequence[scene_graph.Scene], captions: Sequence[Sequence[SceneCaption]]
) -> Iterator[Record]:
    """Yields every caption with the images that it is true of, and every image with its captions.

    A caption is true of its own image, so no list is empty.
    """
    said = encode([caption.content for group in captions for caption in group])
    shown = encode([scene_graph.full_content(scene) for scene in scenes])
    caption, image = find_matches(said, shown) + [[first_id * DESCRIBERS], [first_id]]
    for direction, query, positive in (("t2i", caption, image), ("i2t", image, caption)):
        order = np.argsort(query, kind="stable")
        queries, starts = np.unique(query[order], return_index=True)
        for query_id, ids in zip(queries, np.split(positive[order], starts[1:]), strict=True):
            example = {"direction": direction, "query_id": query_id, "positive_ids": ids}
            yield f"{direction}/{query_id}", example | {"unreachable_ids": ()}
