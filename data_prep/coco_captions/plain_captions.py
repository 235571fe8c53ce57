"""Reader for plain caption files: any part of the COCO captions, without the images.

The format is described in README.md beside this file.
"""

import dataclasses
import itertools
import pathlib

from data_prep.reading.csv_files import read_csv
from data_prep.reading.karpathy import Photograph, Photographs
from data_prep.reading.text_files import read_jsonl
from xmodal.core.errors import UnexpectedFilesError

COLUMNS = ("caption_id", "image_id", "karpathy_split", "caption")
SPLITS = ("train", "restval", "val", "test")
# COCO's own ids are below a million; these stay int32.
FIRST_NEW_ID = 2**30


def has_plain_captions(folder: pathlib.Path) -> bool:
    """Whether a folder has caption files with ids."""
    return any(_find(folder, ending) for ending in ("csv", "jsonl"))


def read_plain_captions(folder: pathlib.Path) -> Photographs:
    """Reads all captions.

    Images in the JSON lines that are also in the tables are skipped, since their captions would
    appear twice.

    Returns:
      Karpathy split -> its images.

    Raises:
      UnexpectedFilesError: a column or field is missing, an id appears twice, a split is unknown or
        an image is in two, or an image has two JSON lines.
    """
    found = _Found()
    _read_tables(folder, found)
    _read_json_lines(folder, found)
    photographs: dict[str, list[Photograph]] = {split: [] for split in SPLITS}
    for image_id, captions in found.captions.items():
        photograph = Photograph(f"image {image_id}", image_id, tuple(captions))
        photographs[found.splits[image_id]].append(photograph)
    return photographs


@dataclasses.dataclass(frozen=True)
class _Found:
    """The captions and the split of every image so far, by image id."""

    captions: dict[int, list[tuple[int, str]]] = dataclasses.field(default_factory=dict)
    splits: dict[int, str] = dataclasses.field(default_factory=dict)

    def captions_of(self, image_id: int, split: str, where: pathlib.Path) -> list[tuple[int, str]]:
        """The list of an image's captions, to be extended, after a check of its split."""
        if split not in SPLITS:
            raise UnexpectedFilesError(f"{where}: split {split!r}; known: {', '.join(SPLITS)}")
        first = self.splits.setdefault(image_id, split)
        if first != split:
            raise UnexpectedFilesError(f"{where}: image {image_id} is in {split} and {first}")
        return self.captions.setdefault(image_id, [])


def _read_tables(folder: pathlib.Path, found: _Found) -> None:
    seen: set[int] = set()
    for path in _find(folder, "csv"):
        for place, row in read_csv(path, columns=COLUMNS):
            where = path.parent / place
            try:
                caption_id, image_id = int(row["caption_id"]), int(row["image_id"])
            except ValueError as error:
                raise UnexpectedFilesError(f"{where}: {error}") from error
            if caption_id in seen:
                raise UnexpectedFilesError(f"{where}: caption id {caption_id} appears twice")
            seen.add(caption_id)
            captions = found.captions_of(image_id, row["karpathy_split"], where)
            # Retrieval uses five captions per image; some COCO images have a sixth and seventh.
            if row["karpathy_split"] in SPLITS[:2] or row.get("in_karpathy5") != "0":
                captions.append((caption_id, row["caption"]))


def _read_json_lines(folder: pathlib.Path, found: _Found) -> None:
    """Reads the images that are not in the tables."""
    with_ids, new_ids = set(found.captions), itertools.count(FIRST_NEW_ID)
    for path in _find(folder, "jsonl"):
        for place, line in read_jsonl(path):
            where = path.parent / place
            try:
                image_id, split = int(line["image_id"]), str(line["karpathy_split"])
                texts = [*line["captions"]]
            except (KeyError, OverflowError, TypeError, ValueError) as error:
                raise UnexpectedFilesError(
                    f"{where}: {type(error).__name__} {error}; each line needs image_id, "
                    "karpathy_split and a list of captions"
                ) from error
            if image_id not in with_ids:
                captions = found.captions_of(image_id, split, where)
                if captions:
                    raise UnexpectedFilesError(
                        f"{where}: image {image_id} has a line already; keep one line per image"
                    )
                captions += [(next(new_ids), caption) for caption in texts]


def _find(folder: pathlib.Path, ending: str) -> list[pathlib.Path]:
    return sorted([*folder.glob(f"captions*.{ending}"), *folder.glob(f"captions*.{ending}.gz")])
