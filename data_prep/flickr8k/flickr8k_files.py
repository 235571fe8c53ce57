"""Readers for Flickr8k's published files, or the same content as csv files.

Three layouts are supported, identified by the caption file: a tidied one (`captions.csv.gz`),
the original release (`Flickr8k.token.txt`) and Karpathy's (`dataset_flickr8k.json`).
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator

from data_prep.reading.csv_files import read_csv
from data_prep.reading.published_files import has_json, in_splits, read_karpathy
from xmodal.core.errors import UnexpectedFilesError

ORIGINAL_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
TIDY_SPLITS = {"train": "train", "val": "validation", "test": "test"}
# Positions of the 91 images without a split in the sorted list of all names. Karpathy's file lacks
# them, and ids must not depend on the layout.
WITHOUT_SPLIT = (
    143, 508, 536, 642, 713, 733, 824, 880, 959, 1073, 1256, 1527, 1626, 1711, 1740, 1746, 1861,
    2250, 2263, 2332, 2439, 2746, 2764, 2830, 2859, 2951, 3042, 3070, 3302, 3555, 3574, 3638, 3664,
    3704, 3770, 3862, 3960, 3967, 4016, 4157, 4180, 4258, 4280, 4440, 4596, 4626, 4650, 4690, 4825,
    4851, 4944, 4962, 5009, 5016, 5108, 5120, 5140, 5238, 5299, 5339, 5478, 5481, 5607, 5628, 5803,
    5857, 5918, 5982, 6035, 6046, 6083, 6145, 6231, 6277, 6303, 6343, 6369, 6409, 6429, 6463, 6557,
    6665, 6672, 6765, 7055, 7142, 7231, 7443, 7650, 7790, 7963,
)  # fmt: skip
# Rating, tidied and original file, columns of the raters, lowest and highest score.
_RATINGS = (
    (
        "expert",
        "expert_annotations.csv",
        "ExpertAnnotations.txt",
        ("rating1", "rating2", "rating3"),
        1,
        4,
    ),
    (
        "crowd",
        "crowdflower_annotations.csv.gz",
        "CrowdFlowerAnnotations.txt",
        ("yes_fraction",),
        0,
        1,
    ),
)
# Listed in the original captions, but the release has no such image.
_WITHOUT_IMAGE = "2258277193_586949ec62.jpg.1"


@dataclasses.dataclass(frozen=True)
class CaptionFile:
    """Captions and splits.

    Attributes:
      texts: file name -> its five captions.
      splits: split -> file names.
      absent: positions, in the sorted list of all names, of the images that `texts` lacks.
    """

    texts: dict[str, list[str]]
    splits: dict[str, list[str]]
    absent: tuple[int, ...] = ()

    @property
    def num_images(self) -> int:
        """Number of all images, including those that are absent."""
        return len(self.texts) + len(self.absent)

    def image_ids(self) -> dict[str, int]:
        """Id of every image: its position in the sorted list of all names."""
        places = (place for place in range(self.num_images) if place not in self.absent)
        return dict(zip(sorted(self.texts), places, strict=True))

    def __post_init__(self) -> None:
        for name in (*self.texts, *itertools.chain.from_iterable(self.splits.values())):
            if len(texts := self.texts.get(name, [])) != 5 or not all(texts):
                raise UnexpectedFilesError(
                    f"Flickr8k image {name} does not have five captions: {texts}"
                )


@dataclasses.dataclass(frozen=True)
class JudgedPair:
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
      UnexpectedFilesError: a file is damaged, or an image is in two splits or does not have
        exactly five captions.
    """
    tidy, original = folder / "captions.csv.gz", folder / "Flickr8k.token.txt"
    if not tidy.exists() and not original.exists() and has_json(folder, "dataset_flickr8k.json"):
        images = in_splits(read_karpathy(folder, "dataset_flickr8k.json"))
        captions = {
            each.name: [text for _, text in each.captions]
            for group in images.values()
            for each in group
        }
        splits = {split: [each.name for each in group] for split, group in images.items()}
        return CaptionFile(captions, splits, WITHOUT_SPLIT)
    if tidy.exists():
        rows = list(read_csv(tidy, columns=("image", "caption_idx", "split", "caption")))
        splits = {
            ours: [r["image"] for _, r in rows if r["split"] == name and r["caption_idx"] == "0"]
            for name, ours in TIDY_SPLITS.items()
        }
    else:
        rows = list(_read_original(original, "key", "caption"))
        lists = {
            ours: folder / f"Flickr_8k.{name}Images.txt" for name, ours in ORIGINAL_SPLITS.items()
        }
        splits = {
            ours: [row["image"] for _, row in _read_original(path, "image")]
            for ours, path in lists.items()
        }
    texts: dict[str, list[str]] = {}
    for where, row in rows:
        image, number = _caption_key(row, where)
        if image != _WITHOUT_IMAGE:
            of_image = texts.setdefault(image, [""] * 5)
            if of_image[number]:
                raise UnexpectedFilesError(f"{where}: caption {number} of {image} appears twice")
            of_image[number] = row["caption"]
    return CaptionFile(texts, splits)


def read_ratings(folder: pathlib.Path) -> Iterator[JudgedPair]:
    """Reads the ratings of the experts (rating `expert`, 1 to 4) and the crowd (`crowd`, 0 to 1).

    The score is the mean of the three experts, or the fraction of the crowd that said yes.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged, or a score is invalid.
    """
    is_tidy = (folder / "expert_annotations.csv").exists()
    for kind, tidy, original, raters, low, high in _RATINGS:
        if is_tidy:
            columns = ("image", "caption_image", "caption_idx", *raters)
            rows = read_csv(folder / tidy, columns=columns)
        else:
            rows = _read_original(folder / original, "image", "key", *raters)
        for where, row in rows:
            scores = tuple(_score(row[name], low, high, where) for name in raters)
            image, number = _caption_key(row, where)
            of_raters = scores if kind == "expert" else ()
            mean = sum(scores) / len(scores)
            yield JudgedPair(kind, row["image"], image, number, mean, of_raters)


def _read_original(path: pathlib.Path, *columns: str) -> Iterator[tuple[str, dict[str, str]]]:
    return read_csv(path, columns=columns, delimiter="\t", header=False, quotes=False)


def _caption_key(row: dict[str, str], where: str) -> tuple[str, int]:
    """File name and number of a caption: `12345_abc.jpg#0` to `#4`, or in two columns."""
    image, _, number = row.get("key", "").rpartition("#")
    if "caption_idx" in row:
        image, number = row.get("caption_image", row["image"]), row["caption_idx"]
    if not image or number not in ("0", "1", "2", "3", "4"):
        raise UnexpectedFilesError(f"{where}: {image}#{number} is not an image name with #0 to #4")
    return image, int(number)


def _score(text: str, low: int, high: int, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:  # also rejects NaN
        raise UnexpectedFilesError(f"{where}: the score {text!r} is not from {low} to {high}")
    return score
