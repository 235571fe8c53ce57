"""Crisscrossed Captions: pairs of COCO's captions and images with human similarity, 0 to 5."""

import collections
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.image_check import checked_image
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import BadImageError, LeftOut, Record
from data_prep.coco_captions.pictures import Pictures
from data_prep.cxc.caption_texts import read_caption_texts
from data_prep.cxc.rating_files import KINDS, RELEASED, Rating, file_name, read_ratings

# Suffix of a config -> kinds of sides whose contents it includes in addition to ids.
_ADDED = {"": (), "captions": ("caption",), "images": ("caption", "image")}


class Builder(RandomAccessBuilder):
    """TFDS builder of the released ratings, one example per row, joined to the rated items.

    Ids are those of COCO. Some image pairs are rated in both orders, with two scores: both rows are
    kept. Configs with captions or images leave out rows whose caption or image is missing.
    """

    VERSION = tfds.core.Version("1.1.0")
    BUILDER_CONFIGS = configs(
        sts="Caption-caption pairs, ids.",
        sis="Image-image pairs, ids.",
        sits="Caption-image pairs, ids.",
        sts_captions="`sts` with both texts.",
        sits_captions="`sits` with the texts.",
        sis_images="`sis` with both images.",
        sits_images="`sits` with texts and images.",
    )
    HOMEPAGE = "https://github.com/google-research-datasets/Crisscrossed-Captions"
    EXPECTED: ClassVar[dict[str, int]] = {
        f"{rating}/{split}/{method}": count
        for rating, by_split in RELEASED.items()
        for split, methods in by_split.items()
        for method, count in methods.items()
    }

    def _features(self) -> tfds.features.FeaturesDict:
        parts = {"caption": tfds.features.Text(), "image": schema.PIXELS}
        added = {name: parts[kind] for name, kind in self._added.items()}
        return tfds.features.FeaturesDict({**schema.rating_features(), **added})

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        ratings = {
            split: read_ratings(folder / file_name(self._rating, split), self._rating, raters=True)
            for split in RELEASED[self._rating]
        }
        found = collections.Counter(
            f"{self._rating}/{split}/{row.method}"
            for split, rows in ratings.items()
            for row in rows
        )
        own = {k: n for k, n in self.EXPECTED.items() if k.startswith(f"{self._rating}/")}
        schema.check_counts(found, own, str(folder))
        kinds = self._added.values()
        readers: dict[str, Callable[[int], Any]] = {}
        if "caption" in kinds:
            readers["caption"] = read_caption_texts(folder).__getitem__
        if "image" in kinds:
            readers["image"] = _checked(Pictures(folder, partial=True))
        return {split: self._examples(rows, readers) for split, rows in ratings.items()}

    @property
    def _rating(self) -> str:
        return self.builder_config.name.partition("_")[0]

    @property
    def _added(self) -> dict[str, str]:
        """Features in addition to the ids -> kind: `{"left_caption": "caption", ...}`."""
        added = _ADDED[self.builder_config.name.partition("_")[2]]
        sides = zip(("left", "right"), KINDS[self._rating], strict=True)
        return {f"{side}_{kind}": kind for side, kind in sides if kind in added}

    def _examples(
        self, ratings: Iterable[Rating], readers: Mapping[str, Callable[[int], Any]]
    ) -> Iterator[Record | LeftOut]:
        for row, rated in enumerate(ratings):
            assert rated.score is not None  # Released files have the column.
            example = schema.rating_example(
                self._rating,
                rated.left_id,
                rated.right_id,
                rated.score,
                rated.method,
                rated.rater_scores,
            )
            try:
                for name, kind in self._added.items():
                    side = rated.left_id if name.startswith("left") else rated.right_id
                    example[name] = readers[kind](side)
            except BadImageError as error:
                yield LeftOut(rated.where, error.reason, error.detail)
            except KeyError as error:
                yield LeftOut(rated.where, "no caption", f"caption {error}")
            else:
                yield row, example


def _checked(pictures: Pictures) -> Callable[[int], bytes]:
    """A reader of photographs, each of which is in many pairs, but is checked only once."""
    sound: set[int] = set()

    def read(image_id: int) -> bytes:
        encoded = pictures.read(image_id)
        if image_id not in sound:
            checked = checked_image(encoded)
            if checked != encoded:
                return checked
            sound.add(image_id)
        return encoded

    return read
