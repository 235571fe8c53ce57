"""Readers for Flickr8k's published files, or the same content as csv files.

Two layouts are supported, identified by the caption file: a tidied one (`captions.csv.gz`) and the
original release (`Flickr8k.token.txt`).
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from data_prep.reading.csv_files import read_csv
from xmodal.core.errors import UnexpectedFilesError

# Our split -> its name in the tidied file, and its list in the original release.
_SPLITS = {
    "train": ("train", "Flickr_8k.trainImages.txt"),
    "validation": ("val", "Flickr_8k.devImages.txt"),
    "test": ("test", "Flickr_8k.testImages.txt"),
}
# Tidied and original file of a rating, columns of the raters, lowest and highest score.
_EXPERTS = ("rating1", "rating2", "rating3")
_RATINGS = {
    "expert": ("expert_annotations.csv", "ExpertAnnotations.txt", _EXPERTS),
    "crowd": ("crowdflower_annotations.csv.gz", "CrowdFlowerAnnotations.txt", ("yes_fraction",)),
}
# Listed in the original captions, but the release has no such image.
_WITHOUT_IMAGE = "2258277193_586949ec62.jpg.1"


@dataclasses.dataclass(frozen=True)
class CaptionFile:
    """Captions and splits.

    Attributes:
      texts: file name -> its five captions.
      splits: split -> file names.
    """

    texts: dict[str, list[str]]
    splits: dict[str, list[str]]

    def image_ids(self) -> dict[str, int]:
        """Id of every image: its position in the sorted list of all names."""
        return {name: place for place, name in enumerate(sorted(self.texts))}

    def __post_init__(self) -> None:
        for name in (*self.texts, *itertools.chain.from_iterable(self.splits.values())):
            if len(texts := self.texts.get(name, [])) != 5 or not all(texts):
                raise UnexpectedFilesError(
                    f"Flickr8k image {name} does not have five captions: {texts}"
                )


class JudgedPair(NamedTuple):
    """One rated pair: does caption number `caption_idx` of `caption_image` describe `image`?"""

    kind: str
    image: str
    caption_image: str
    caption_idx: int
    score: float
    rater_scores: tuple[float, ...]


def read_captions(folder: pathlib.Path) -> CaptionFile:
    """Reads all captions and the three splits.

    Raises:
      FileNotFoundError: a file of the layout that was found is missing.
      UnexpectedFilesError: a file is damaged, or an image does not have exactly five captions.
    """
    tidy = folder / "captions.csv.gz"
    splits: dict[str, list[str]] = {}
    if tidy.exists():
        rows = list(read_csv(tidy, columns=("image", "caption_idx", "split", "caption")))
        for split, (name, _) in _SPLITS.items():
            own = (row for _, row in rows if row["split"] == name and row["caption_idx"] == "0")
            splits[split] = [row["image"] for row in own]
    else:
        rows = list(_read_original(folder / "Flickr8k.token.txt", "key", "caption"))
        for split, (_, listed) in _SPLITS.items():
            splits[split] = [row["image"] for _, row in _read_original(folder / listed, "image")]
    texts: dict[str, list[str]] = {}
    for _, row in rows:
        image, number = _caption_key(row)
        if image != _WITHOUT_IMAGE:
            texts.setdefault(image, [""] * 5)[number] = row["caption"]
    return CaptionFile(texts, splits)


def read_ratings(folder: pathlib.Path) -> Iterator[JudgedPair]:
    """Reads the ratings of the experts (rating `expert`, 1 to 4) and the crowd (`crowd`, 0 to 1).

    The score is the mean of the three experts, or the fraction of the crowd that said yes.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged, or a score is invalid.
    """
    is_tidy = (folder / "expert_annotations.csv").exists()
    for kind, (tidy, original, raters) in _RATINGS.items():
        if is_tidy:
            columns = ("image", "caption_image", "caption_idx", *raters)
            rows = read_csv(folder / tidy, columns=columns)
        else:
            rows = _read_original(folder / original, "image", "key", *raters)
        for where, row in rows:
            image, number = _caption_key(row)
            try:
                scores = tuple(float(row[name]) for name in raters)
            except ValueError as error:
                raise UnexpectedFilesError(f"{where}: {error}") from error
            of_raters = scores if kind == "expert" else ()
            mean = sum(scores) / len(scores)
            yield JudgedPair(kind, row["image"], image, number, mean, of_raters)


def _read_original(path: pathlib.Path, *columns: str) -> Iterator[tuple[str, dict[str, str]]]:
    return read_csv(path, columns=columns, delimiter="\t", header=False, quotes=False)


def _caption_key(row: dict[str, str]) -> tuple[str, int]:
    """File name and number of a caption: `12345_abc.jpg#0` to `#4`, or in two columns."""
    image, _, number = row.get("key", "").rpartition("#")
    if "caption_idx" in row:
        image, number = row.get("caption_image", row["image"]), row["caption_idx"]
    return image, int(number)
