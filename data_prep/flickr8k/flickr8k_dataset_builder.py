"""Flickr8k: 8,091 photographs with five captions each, and graded image-caption pairs."""

import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.caption_pairs import caption_pairs
from data_prep.flickr8k import flickr8k_files
from data_prep.reading.image_files import open_images
from data_prep.same_text import text_key
from data_prep.semeval_sts.semeval_files import find_sets
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

# The release and its misspelled folder, Kaggle's copy, and a smaller copy.
_IMAGES = ("Flickr8k_Dataset", "Flicker8k_Dataset", "Images", "images_160")
# Channels of MobileNetV2's features.
_CHANNELS = 1280


class Builder(RandomAccessBuilder):
    """TFDS builder of Flickr8k.

    An image's id is its position among the sorted file names of all 8,091 images; the id of its
    k-th caption is 5 x image id + k.
    """

    VERSION = tfds.core.Version("1.1.0")
    BUILDER_CONFIGS = configs(
        images="Photographs and captions.",
        features="MobileNetV2 features and captions.",
        ratings="Human judgments of test pairs.",
        features_one_caption="MobileNetV2 features and the first caption of every image, as VETE "
        "trains on COCO; `train` has all images except those in `test`.",
        features_one_caption_unseen="`features_one_caption` without training images that have a "
        "caption among the sentences of semeval_sts.",
        test_pairs="Caption pairs from the same and different test images.",
    )
    HOMEPAGE = "https://doi.org/10.1613/jair.3994"
    UNIQUE_IDS: ClassVar[tuple[str, ...]] = ("image_id", "caption_ids", "pair_id")
    EXPECTED: ClassVar[dict[str, int]] = {
        "images": 8091,
        "train": 6000,
        "validation": 1000,
        "test": 1000,
        "expert": 5664,
    }

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name == "ratings":
            return schema.rating_features()
        if self.builder_config.name == "test_pairs":
            return schema.sentence_pair_features()
        if self.builder_config.name.startswith("features"):
            return schema.captioned_image_features(schema.feature_vector(_CHANNELS))
        return schema.captioned_image_features(schema.PIXELS)

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record | LeftOut]]:
        captions = flickr8k_files.read_captions(folder)
        image_ids = captions.image_ids()
        found = {"images": len(captions.texts)} | {k: len(v) for k, v in captions.splits.items()}
        if self.builder_config.name == "ratings":
            # The common protocol excludes the experts' ratings of an image's own captions.
            ratings = [
                rating
                for rating in flickr8k_files.read_ratings(folder)
                if rating.kind != "expert" or rating.image != rating.caption_image
            ]
            found["expert"] = sum(rating.kind == "expert" for rating in ratings)
            schema.check_counts(found, self.EXPECTED, str(folder))
            return {"test": _rating_examples(ratings, image_ids)}
        expected = {name: count for name, count in self.EXPECTED.items() if name != "expert"}
        schema.check_counts(found, expected, str(folder))
        if self.builder_config.name == "test_pairs":
            images = [(image_ids[name], captions.texts[name]) for name in captions.splits["test"]]
            return {"test": caption_pairs("flickr8k_test", images)}
        splits, texts = captions.splits, captions.texts
        if self.builder_config.name.startswith("features_one_caption"):
            splits = self._training_and_test(captions, folder)
            texts = {name: five[:1] for name, five in texts.items()}
        image_of = _open_images(folder, self.builder_config.name)
        return {
            split: _captioned_images({name: texts[name] for name in names}, image_ids, image_of)
            for split, names in splits.items()
        }

    def _training_and_test(
        self, captions: flickr8k_files.CaptionFile, folder: pathlib.Path
    ) -> dict[str, list[str]]:
        """The images of `test`, and all others (for `unseen`, only unseen ones) for training."""
        test = set(captions.splits["test"])
        train = [name for name in captions.texts if name not in test]
        if self.builder_config.name == "features_one_caption_unseen":
            inside, beside = folder / "sts", folder.parent / "sts"
            sets = find_sets(beside if beside.is_dir() and not inside.is_dir() else inside)
            pairs = itertools.chain.from_iterable(sets.values())
            seen = {text_key(sentence) for pair in pairs for sentence in pair.sentences}
            known = {
                name for name in train if seen.intersection(map(text_key, captions.texts[name]))
            }
            self.info.metadata["images_of_semeval_sts"] = len(known)
            train = sorted(set(train) - known)
        return {"train": train, "test": captions.splits["test"]}


def _captioned_images(
    captions: Mapping[str, list[str]],
    image_ids: Mapping[str, int],
    image_of: Callable[[str], Any],
) -> Iterator[Record | LeftOut]:
    for name, texts in captions.items():
        image, image_id = image_of(name), image_ids[name]
        if image is None:
            yield LeftOut(name, "no features")
        else:
            numbered = list(enumerate(texts, 5 * image_id))
            yield name, schema.captioned_example(image_id, numbered, image=image)


def _open_images(folder: pathlib.Path, config: str) -> Callable[[str], Any]:
    """Returns a function that maps a file name to its column: the image or its features."""
    if not config.startswith("features"):
        return open_images(folder, *_IMAGES).image
    path = folder / "mobilenet_v2_features.npz"
    try:
        with load_arrays(path) as archive:
            names, features = archive["files"], archive["features"]
            rows = features.reshape(len(names), _CHANNELS)
            return dict(zip(names.tolist(), rows, strict=True)).get
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise UnexpectedFilesError(
            f"{path} is not an archive with `files` and `features` [N, {_CHANNELS}]: {error}"
        ) from error


def _rating_examples(
    ratings: list[flickr8k_files.JudgedPair], image_ids: Mapping[str, int]
) -> Iterator[Record]:
    for number, rating in enumerate(ratings):
        caption_id = 5 * image_ids[rating.caption_image] + rating.caption_idx
        ids = caption_id, image_ids[rating.image]
        kind, raters = rating.kind, rating.rater_scores
        yield number, schema.rating_example(kind, *ids, rating.score, kind, raters)
