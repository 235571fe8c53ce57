"""A folder of your own pictures and captions, in one of four layouts."""

import collections
import hashlib
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds
from absl import logging

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import BadImageError, LeftOut, Record
from data_prep.captioned_images.captioned_pictures import CaptionedPicture, ReadingOptions
from data_prep.captioned_images.layouts import Items, Layout, find_layout, find_ratings
from data_prep.captioned_images.preview import Example, keep_example, preview_page, summary
from data_prep.captioned_images.splits import Picked, choose_splits
from data_prep.captioned_images.user_ratings import rated_pairs
from data_prep.reading.image_files import ImageFile
from data_prep.reading.picture_names import composed
from data_prep.reading.split_names import SPLITS
from xmodal.core.errors import UnexpectedFilesError

Plan = dict[str, Picked | LeftOut | None]
"""Name of a picture -> its row, why it is not read, or None if its captions went to another."""


class Builder(RandomAccessBuilder):
    """TFDS builder for a user's folder; where the dataset is stored depends on the files in it."""

    VERSION = tfds.core.Version("1.6.0")
    MIN_KEPT = 0.5
    MOST_LOST = 0.1
    UPRIGHT = True
    OWN_FILES = True
    BUILDER_CONFIGS = configs(
        images="Pictures and captions.",
        ratings="Rated pairs, if any.",
    )

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name == "ratings":
            return schema.rating_features()
        features = dict(schema.captioned_image_features(schema.PIXELS).items())
        return tfds.features.FeaturesDict({**features, "picture": tfds.features.Text()})

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        ratings, of_ratings = find_ratings(folder), self.builder_config.name == "ratings"
        if of_ratings and ratings is None:
            return {}
        self._folder, options = folder, ReadingOptions.read(folder)
        layout = find_layout(folder, options)
        examples, left_out = list[Example](), collections.Counter[str]()
        plan = self._examine(layout, examples, left_out, by_content=options.split == "none")
        pictures = [each for each in plan.values() if isinstance(each, Picked)]
        notes = choose_splits(pictures)
        if ratings is not None and of_ratings:
            return self._rated(ratings, plan)
        text = summary(layout, pictures, notes, left_out, examples, ratings)
        self.info.metadata["understood"] = text
        page = pathlib.Path(self.data_dir_root) / "preview.html"
        # Names of files may contain bytes that are not text.
        page.write_bytes(
            preview_page(folder.name, text, examples).encode(errors="backslashreplace")
        )
        print(
            f"captioned_images: {folder}\n{text}\n  preview   {page}", file=sys.stderr, flush=True
        )
        return {split: _examples(layout.read(), plan, split) for split in SPLITS}

    def _check_fits(self, item: LeftOut) -> None:
        """Raises an error for a record that does not fit, unless missing records are allowed."""
        if item.is_record and not self.allow_missing:
            detail = f", {item.detail}" if item.detail else ""
            raise UnexpectedFilesError(
                f"{self._folder / item.where}: {item.reason}{detail}; correct it, or leave all of "
                "its kind out with --allow_missing of data_prep.build, which lists them"
            )

    def _examine(
        self,
        layout: Layout,
        examples: list[Example],
        left_out: collections.Counter[str],
        *,
        by_content: bool,
    ) -> Plan:
        """Reads all pictures once.

        Args:
          layout: the folder.
          examples: collects a few pictures.
          left_out: counts the reasons of items that are not read.
          by_content: whether to ignore splits named by files and folders.

        Returns:
          The rows of the pictures, with ids.
        """
        plan: Plan = {}
        same: dict[tuple[str, str], Picked] = {}
        for item in layout.read():
            if isinstance(item, LeftOut):
                self._check_fits(item)
                left_out[item.reason] += 1
                continue
            logging.log_every_n_seconds(logging.INFO, "Read %d pictures.", 10, len(plan))
            try:
                encoded = item.read()
            except BadImageError as error:
                lost = plan[item.name] = LeftOut(item.name, error.reason, error.detail)
                self._check_fits(lost)
                left_out[lost.reason] += 1
                continue
            split = "" if by_content else item.split
            picked = Picked(item.name, item.captions, split, hashlib.sha256(encoded).hexdigest())
            first = picked if item.is_file else same.setdefault((picked.digest, split), picked)
            if first is picked:
                keep_example(examples, picked, encoded)
                plan[item.name] = picked
            else:
                first.captions = tuple(dict.fromkeys([*first.captions, *item.captions]))
                plan[item.name] = None
        number = 0
        pictures = [each for each in plan.values() if isinstance(each, Picked)]
        for image_id, picture in enumerate(sorted(pictures, key=lambda each: each.name)):
            picture.image_id, picture.caption_id = image_id, number
            number += len(picture.captions)
        return plan

    def _rated(self, ratings: pathlib.Path, plan: Plan) -> dict[str, list[Record | LeftOut]]:
        """The rated pairs of every split that has some; an empty one would stop the build."""
        pairs: dict[str, list[Record | LeftOut]] = {split: [] for split in SPLITS}
        for split, pair in rated_pairs(ratings, *_by_name(plan)):
            if isinstance(pair, LeftOut):
                self._check_fits(pair)
            pairs[split].append(pair)
        return {
            split: own
            for split, own in pairs.items()
            if any(isinstance(each, tuple) for each in own)
        }


def _examples(items: Items, plan: Plan, wanted: str) -> Iterator[Record | LeftOut]:
    """Yields the records of a split; entries that are not read belong to the first one."""
    for item in items:
        row = item if isinstance(item, LeftOut) else plan[item.name]
        if isinstance(row, LeftOut) and wanted == SPLITS[0]:
            yield row
        elif isinstance(row, Picked) and isinstance(item, CaptionedPicture) and row.split == wanted:
            captions = list(enumerate(row.captions, row.caption_id))
            image = ImageFile(item.name, item.read)
            yield (
                item.name,
                schema.captioned_example(row.image_id, captions, image=image, picture=item.name),
            )


def _by_name(plan: Plan) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Pictures by name, and captions by text: split -> kind and id; see `rated_pairs`."""
    images: dict[str, dict[str, Any]] = {}
    captions: dict[str, dict[str, Any]] = {}
    for name, row in plan.items():
        images[name] = {}
        if isinstance(row, Picked):
            images[name] = {row.split: ("image", row.image_id)}
            for number, caption in enumerate(row.captions, row.caption_id):
                of_text = captions.setdefault(composed(caption), {})
                of_text.setdefault(row.split, ("caption", number))
    return images, captions
