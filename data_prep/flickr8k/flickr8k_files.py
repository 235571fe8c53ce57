"""Readers for Flickr8k's published files, or the same content as csv files.

Three layouts are supported, identified by the caption file: a tidied one (`captions.csv.gz`),
the original release (`Flickr8k.token.txt`) and Karpathy's (`dataset_flickr8k.json`).
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from data_prep.reading.csv_files import read_csv
from data_prep.reading.karpathy import file_name, in_splits, read_karpathy
from data_prep.reading.published_json import has_json
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
        listed = [name for names in self.splits.values() for name in names]
        if unknown := sorted(set(listed) - self.texts.keys()):
            raise UnexpectedFilesError(
                f"Flickr8k image {unknown[0]} is in a split but has no captions"
            )
        for name, texts in self.texts.items():
            if len(texts) != 5 or not all(texts):
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
    if (folder / "captions.csv.gz").exists():
        return _read_tidy_captions(folder / "captions.csv.gz")
    if not (folder / "Flickr8k.token.txt").exists() and has_json(folder, file_name("flickr8k")):
        images = in_splits(read_karpathy(folder, "flickr8k"))
        captions = {
            each.name: [text for _, text in each.captions]
            for group in images.values()
            for each in group
        }
        splits = {split: [each.name for each in group] for split, group in images.items()}
        return CaptionFile(captions, splits, WITHOUT_SPLIT)
    texts: dict[str, list[str]] = {}
    for where, row in _read_original(folder / "Flickr8k.token.txt", "key", "caption"):
        image, number = _caption_key(row["key"], where)
        if image != _WITHOUT_IMAGE:
            _add(texts, image, number, row["caption"], where)
    splits = {
        split: [
            row["image"]
            for _, row in _read_original(folder / f"Flickr_8k.{name}Images.txt", "image")
        ]
        for name, split in ORIGINAL_SPLITS.items()
    }
    return CaptionFile(texts, splits)


def read_ratings(folder: pathlib.Path) -> Iterator[JudgedPair]:
    """Reads the ratings of the experts (rating `expert`, 1 to 4) and the crowd (`crowd`, 0 to 1).

    The score is the mean of the three experts, or the fraction of the crowd that said yes.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged, or a score is invalid.
    """
    if (folder / "expert_annotations.csv").exists():
        pair = ("image", "caption_image", "caption_idx")
        raters = tuple(f"rating{k}" for k in (1, 2, 3))
        for where, row in read_csv(folder / "expert_annotations.csv", columns=(*pair, *raters)):
            key = f"{row['caption_image']}#{row['caption_idx']}"
            yield _expert(row["image"], key, [row[name] for name in raters], where)
        path = folder / "crowdflower_annotations.csv.gz"
        for where, row in read_csv(path, columns=(*pair, "yes_fraction")):
            key = f"{row['caption_image']}#{row['caption_idx']}"
            yield _crowd(row["image"], key, row["yes_fraction"], where)
        return
    names = ("image", "key", "first", "second", "third")
    for where, row in _read_original(folder / "ExpertAnnotations.txt", *names):
        yield _expert(row["image"], row["key"], [row[name] for name in names[2:]], where)
    names = ("image", "key", "yes_fraction")
    for where, row in _read_original(folder / "CrowdFlowerAnnotations.txt", *names):
        yield _crowd(row["image"], row["key"], row["yes_fraction"], where)


def _read_tidy_captions(path: pathlib.Path) -> CaptionFile:
    texts: dict[str, list[str]] = {}
    splits: dict[str, list[str]] = {split: [] for split in TIDY_SPLITS.values()}
    for where, row in read_csv(path, columns=("image", "caption_idx", "split", "caption")):
        image, number = _caption_key(f"{row['image']}#{row['caption_idx']}", where)
        _add(texts, image, number, row["caption"], where)
        if number == 0 and row["split"] in TIDY_SPLITS:
            splits[TIDY_SPLITS[row["split"]]].append(image)
    return CaptionFile(texts, splits)


def _read_original(path: pathlib.Path, *columns: str) -> Iterator[tuple[str, dict[str, str]]]:
    return read_csv(path, columns=columns, delimiter="\t", header=False, quotes=False)


def _caption_key(key: str, where: str) -> tuple[str, int]:
    """File name and number of a caption, `12345_abc.jpg#0` to `#4`."""
    image, _, number = key.rpartition("#")
    if not image or number not in ("0", "1", "2", "3", "4"):
        raise UnexpectedFilesError(f"{where}: {key!r} is not an image name with #0 to #4")
    return image, int(number)


def _add(texts: dict[str, list[str]], image: str, number: int, caption: str, where: str) -> None:
    captions = texts.setdefault(image, [""] * 5)
    if captions[number]:
        raise UnexpectedFilesError(f"{where}: caption {number} of {image} appears twice")
    captions[number] = caption


def _expert(image: str, key: str, scores: list[str], where: str) -> JudgedPair:
    raters = tuple(_score(score, 1, 4, where) for score in scores)
    return JudgedPair("expert", image, *_caption_key(key, where), sum(raters) / 3, raters)


def _crowd(image: str, key: str, fraction: str, where: str) -> JudgedPair:
    return JudgedPair("crowd", image, *_caption_key(key, where), _score(fraction, 0, 1, where), ())


def _score(text: str, low: int, high: int, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:  # also rejects NaN
        raise UnexpectedFilesError(f"{where}: the score {text!r} is not from {low} to {high}")
    return score
