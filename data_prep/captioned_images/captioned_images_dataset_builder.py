"""A folder of your own pictures and captions, in any common layout."""

import collections
import dataclasses
import functools
import itertools
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building import folder_key
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import LeftOut, Record
from data_prep.building.record_parts import OneProcess, PartedRecords
from data_prep.captioned_images import find_layout
from data_prep.captioned_images.captioned_pictures import APPEARS_TWICE
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.lost_records import count_lost, why_lost
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.preview import preview_page
from data_prep.captioned_images.reading_summary import summary
from data_prep.captioned_images.split_choice import choose_splits
from data_prep.captioned_images.survey import Survey, look_at_part, survey
from data_prep.captioned_images.user_ratings import Item, rated_pairs
from data_prep.published_figures import Figure, Unknown
from data_prep.reading.image_files import ImageFile
from data_prep.reading.split_names import SPLITS
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.picture_names import composed, is_picture

_CHANGED = "was added, removed or renamed during the build; build again"


class Builder(RandomAccessBuilder):
    """TFDS builder for a user's folder; where the dataset is stored depends on the files in it."""

    VERSION = tfds.core.Version("1.6.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {
        "1.0.0": "Initial release.",
        "1.1.0": "Pictures are rotated according to their EXIF orientation.",
        "1.2.0": "The folders `train`, `val` and `test` of the pictures of a table are its splits.",
        "1.4.0": "Rows and samples with the same picture are one; names match whole paths.",
        "1.5.0": "Texts called photo.jpg.txt are of photo.jpg; cells `NA` and `#N/A` are empty.",
        "1.6.0": "Error values of spreadsheets are empty cells, and links no pictures; splits by "
        "content keep equal files together, and no longer resized copies.",
    }
    MIN_KEPT = 0.5
    MOST_LOST = 0.1
    UPRIGHT = True
    OWN_FILES = True
    READ_IN_PARTS = True
    REFERS_TO: ClassVar[tuple[str, ...]] = ("captioned_images/images",)
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="images", description="Pictures and captions."),
        tfds.core.BuilderConfig(name="ratings", description="Rated pairs, if any."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put your pictures and captions into one folder, in one of these layouts:
      - a table (CSV, TSV, JSON lines, JSON or Parquet) with a column of image files, `image` or
        `file_name`, and one or several columns of captions, `caption` or `caption_1`, ...; one row
        per image or per caption; optionally a column `split`
      - COCO's or Karpathy's JSON file
      - images, each with a text file of the same name that has one caption per line
      - shards of img2dataset or WebDataset, or Parquet files of Hugging Face with the images
    The images are in the folder or in folders below it. Optionally, add a table `ratings.csv` with
    the columns `left`, `right` and `score`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._read: tuple[Layout, Survey] | None = None

    @classmethod
    def published_figures(cls, config: str) -> Mapping[str, Figure]:
        """See `RandomAccessBuilder`: nothing is published about a user's files."""
        return {"*/records": Unknown("the files of a user")}

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name == "ratings":
            return schema.rating_features()
        features = dict(schema.captioned_image_features(schema.PIXELS).items())
        return tfds.features.FeaturesDict({**features, "picture": tfds.features.Text()})

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        ratings = find_layout.find_ratings(folder)
        if self.builder_config.name == "ratings" and ratings is None:
            return {}
        options = ReadingOptions.read(folder)
        layout = find_layout.find_layout(folder, options)
        parts = layout.parts()
        workers = self._workers if len(parts) > 1 else OneProcess()
        looks = workers.map(functools.partial(look_at_part, layout), parts)
        found = survey(looks, by_content=options.split == "none")
        splits, notes = choose_splits(found, functools.partial(why_lost, layout, found))
        if ratings is not None and self.builder_config.name == "ratings":
            return _rating_splits(ratings, layout, found, splits)
        text = summary(layout, found, splits, notes, ratings)
        self._read = layout, found
        self._say(folder, text, found, splits)
        plans = workers.keep(_plans(found, splits))
        records = {
            split: PartedRecords(
                len(parts), functools.partial(_examples, layout, parts, plans, split)
            )
            for split in SPLITS
        }
        # A single part cannot be split among processes.
        return records if len(parts) > 1 else {name: iter(each) for name, each in records.items()}

    def _say(self, folder: pathlib.Path, text: str, found: Survey, splits: list[str]) -> None:
        """Prints the reading of the folder, and shows pictures with captions on a page."""
        page = pathlib.Path(self.data_dir_root) / "preview.html"
        page.write_bytes(
            preview_page(
                folder.name, text, found.examples, dict(zip(found.names, splits, strict=True))
            )
        )
        lines = [f"captioned_images: {folder}", text, f"  preview   {page}"]
        if older := sorted(map(str, folder_key.others(page.parent))):
            lines.append(
                f"  older     {len(older):,}, such as {older[-1]}: of this folder before a change, "
                "or of another of its name; delete those that no run uses"
            )
        print(*lines, sep="\n", file=sys.stderr, flush=True)
        self.info.metadata["understood"] = text

    def _lost(self) -> Mapping[str, tuple[int, int]]:
        """See `RandomAccessBuilder`."""
        return count_lost(*self._read) if self._read else super()._lost()

    def _why_lost(self) -> str:
        """See `RandomAccessBuilder`."""
        return why_lost(*self._read) if self._read else super()._why_lost()


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Ids, names and splits of the pictures in a part, "" for one without a row; see `Survey`.

    Attributes:
      joined: picture -> all its captions, if it got those of other pictures.
      copies: picture -> captions that an earlier picture already has.
    """

    image_ids: np.ndarray
    caption_ids: np.ndarray
    names: list[str]
    splits: list[str]
    joined: dict[int, tuple[str, ...]]
    copies: dict[int, int]


def _plans(found: Survey, splits: list[str]) -> Iterator[_Plan]:
    image_ids, caption_ids = found.image_ids(), found.first_caption_ids()
    copies: dict[int, dict[int, int]] = collections.defaultdict(dict)
    for (part, number), count in found.copies.items():
        copies[part][number] = count
    for part, rows in enumerate(found.rows):
        taken = np.array(rows, np.int64)
        yield _Plan(
            image_ids[taken],
            caption_ids[taken],
            [found.names[row] if row >= 0 else "" for row in rows],
            [splits[row] if row >= 0 else "" for row in rows],
            {number: found.joined[row] for number, row in enumerate(rows) if row in found.joined},
            copies[part],
        )


def _examples(
    layout: Layout, parts: Sequence[Any], plans: Sequence[_Plan], wanted: str, number: int
) -> Iterator[Record | LeftOut]:
    """Yields the examples of a split that are in a part.

    Raises:
      UnexpectedFilesError: it has other pictures than in the first pass.
    """
    plan, row = plans[number], -1
    for item in layout.read(parts[number]):
        if isinstance(item, LeftOut):
            if wanted == SPLITS[0]:
                yield item
            continue
        row += 1
        if row >= len(plan.names) or plan.names[row] not in ("", item.name):
            raise UnexpectedFilesError(f"{item.name} {_CHANGED}")
        if not plan.splits[row] and wanted == SPLITS[0]:
            for _ in range(plan.copies.get(row, 0)):
                yield LeftOut(item.name, APPEARS_TWICE, is_record=False)
        elif plan.splits[row] == wanted:
            texts = plan.joined.get(row, item.captions)
            captions = list(enumerate(texts, int(plan.caption_ids[row])))
            image = ImageFile(item.name, item.read)
            yield (
                item.name,
                schema.captioned_example(
                    int(plan.image_ids[row]), captions, image=image, picture=item.name
                ),
            )
    if row + 1 < len(plan.names):
        raise UnexpectedFilesError(f"{plan.names[row + 1] or parts[number]} {_CHANGED}")


def _rating_splits(
    path: pathlib.Path, layout: Layout, found: Survey, splits: list[str]
) -> dict[str, Iterator[Record | LeftOut]]:
    images: dict[str, dict[str, Item]] = {}
    captions: dict[str, dict[str, Item]] = {}
    image_ids, caption_ids = found.image_ids(), found.first_caption_ids()
    rows = itertools.chain.from_iterable(found.rows)
    for item in layout.pictures():
        if isinstance(item, LeftOut):
            if is_picture(item.where):
                images.setdefault(item.where, {})
            continue
        row = next(rows, None)
        if row is None or (row >= 0 and found.names[row] != item.name):
            raise UnexpectedFilesError(f"{item.name} {_CHANGED}")
        if row < 0 or not found.usable[row]:
            images[item.name] = {}
            continue
        texts = found.joined.get(row, item.captions)
        for number, caption in enumerate(texts, int(caption_ids[row])):
            captions.setdefault(composed(caption), {}).setdefault(splits[row], ("caption", number))
        images[item.name] = {splits[row]: ("image", int(image_ids[row]))}
    pairs: dict[str, list[Any]] = {}
    for split, pair in rated_pairs(path, images, captions):
        pairs.setdefault(split, []).append(pair)
    # A split without pairs would stop the build.
    kept = {split for split, found in pairs.items() if any(isinstance(p, tuple) for p in found)}
    return {split: iter(pairs[split]) for split in SPLITS if split in kept}
