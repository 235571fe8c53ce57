"""A folder of your own pictures and captions, in one of four layouts."""

import collections
import functools
import hashlib
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds
from absl import logging

from data_prep import schema
from data_prep.building import folder_key
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.captioned_images.captioned_pictures import CaptionedPicture, read_captions
from data_prep.captioned_images.layouts import Items, find_layout, find_ratings
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.preview import Examples, preview_page, summary
from data_prep.captioned_images.splits import Picked, choose_splits
from data_prep.captioned_images.user_ratings import rated_pairs
from data_prep.reading.image_files import ImageFile
from data_prep.reading.split_names import SPLITS
from xmodal.core.errors import BadImageError, UnexpectedFilesError
from xmodal.core.picture_names import composed

Plan = dict[str, Picked | LeftOut | None]
"""Name of a picture -> its row, why it is not read, or None if its captions went to another."""


class Builder(RandomAccessBuilder):
    """TFDS builder for a user's folder; where the dataset is stored depends on the files in it."""

    VERSION = tfds.core.Version("1.6.0")
    MIN_KEPT = 0.5
    MOST_LOST = 0.1
    UPRIGHT = True
    OWN_FILES = True
    REFERS_TO: ClassVar[tuple[str, ...]] = ("captioned_images/images",)
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
        ratings = find_ratings(folder)
        if self.builder_config.name == "ratings" and ratings is None:
            return {}
        options = ReadingOptions.read(folder)
        layout = find_layout(folder, options)
        read = functools.partial(_fitting, layout.read, folder, self.allow_missing)
        examples = Examples()
        plan, left_out = _examine(
            read(), examples, folder, self.allow_missing, by_content=options.split == "none"
        )
        pictures = [each for each in plan.values() if isinstance(each, Picked)]
        notes = choose_splits(pictures)
        if ratings is not None and self.builder_config.name == "ratings":
            pairs: dict[str, list[Any]] = collections.defaultdict(list)
            for split, pair in rated_pairs(ratings, *_by_name(plan)):
                if isinstance(pair, LeftOut):
                    check_fits(pair, folder, self.allow_missing)
                pairs[split].append(pair)
            # A split without pairs would stop the build.
            kept = [s for s, own in pairs.items() if any(isinstance(each, tuple) for each in own)]
            return {split: iter(pairs[split]) for split in SPLITS if split in kept}
        text = summary(layout, pictures, notes, left_out, examples, ratings)
        self.info.metadata["understood"] = text
        page = pathlib.Path(self.data_dir_root) / "preview.html"
        page.write_bytes(preview_page(folder.name, text, examples))
        lines = [f"captioned_images: {folder}", text, f"  preview   {page}"]
        if older := sorted(map(str, folder_key.others(page.parent))):
            lines.append(
                f"  older     {len(older):,}, such as {older[-1]}: of this folder before a change, "
                "or of another of its name; delete those that no run uses"
            )
        print(*lines, sep="\n", file=sys.stderr, flush=True)
        return {split: _examples(read(), plan, split) for split in SPLITS}


def _fitting(read: Callable[[], Items], folder: pathlib.Path, allow_missing: bool) -> Items:
    """Yields items of a layout.

    Raises:
      UnexpectedFilesError: one does not fit the layout, and `allow_missing` is false.
    """
    for item in read():
        if isinstance(item, LeftOut):
            check_fits(item, folder, allow_missing)
        yield item


def check_fits(item: LeftOut, folder: pathlib.Path, allow_missing: bool) -> None:
    """Raises an error for a record that does not fit, unless missing records are allowed."""
    if item.is_record and not allow_missing:
        detail = f", {item.detail}" if item.detail else ""
        raise UnexpectedFilesError(
            f"{folder / item.where}: {item.reason}{detail}; correct it, or leave all of its kind "
            "out with --allow_missing of data_prep.build, which lists them"
        )


def _examine(
    items: Items,
    examples: Examples,
    folder: pathlib.Path,
    allow_missing: bool,
    *,
    by_content: bool,
) -> tuple[Plan, collections.Counter[str]]:
    """Reads all pictures once.

    Args:
      items: pictures and entries that are not read.
      examples: collects a few pictures.
      folder: folder of the user.
      allow_missing: whether pictures may be missing.
      by_content: whether to ignore splits named by files and folders.

    Returns:
      The rows of the pictures, with ids; and reason -> number of items that are not read.

    Raises:
      UnexpectedFilesError: two pictures have the same name, or a file cannot be read.
    """
    plan: Plan = {}
    same: dict[tuple[str, str], Picked] = {}
    left_out: collections.Counter[str] = collections.Counter()
    for item in items:
        if isinstance(item, LeftOut):
            left_out[item.reason] += 1
            continue
        logging.log_every_n_seconds(logging.INFO, "Read %d pictures.", 10, len(plan))
        if item.name in plan:
            raise UnexpectedFilesError(f"{folder}: two pictures are called {item.name}; rename one")
        try:
            encoded = item.read()
        except BadImageError as error:
            lost = LeftOut(item.name, error.reason, error.detail)
            check_fits(lost, folder, allow_missing)
            plan[item.name] = lost
            left_out[lost.reason] += 1
            continue
        split = "" if by_content else item.split
        picked = Picked(item.name, item.captions, split, hashlib.sha256(encoded).hexdigest())
        if not item.is_file:
            first = same.setdefault((picked.digest, split), picked)
            if first is not picked:
                first.captions, copies = read_captions([*first.captions, *item.captions], item.name)
                left_out.update(copy.reason for copy in copies)
                plan[item.name] = None
                continue
        examples.add(picked, encoded)
        plan[item.name] = picked
    number = 0
    pictures = [each for each in plan.values() if isinstance(each, Picked)]
    for image_id, picture in enumerate(sorted(pictures, key=lambda each: each.name)):
        picture.image_id, picture.caption_id = image_id, number
        number += len(picture.captions)
    return plan, left_out


def _examples(items: Items, plan: Plan, wanted: str) -> Iterator[Record | LeftOut]:
    """Yields the records of a split; entries that are not read belong to the first one."""
    for item in items:
        row = item if isinstance(item, LeftOut) else plan.get(item.name)
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
                captions.setdefault(composed(caption), {}).setdefault(
                    row.split, ("caption", number)
                )
    return images, captions
