"""Readers of Flickr8k's published files, and of the same content as csv files.

Two layouts are understood, told apart by the file of captions: the original release
(`Flickr8k.token.txt`) and a tidied one (`captions.csv.gz`).
"""

import csv
import dataclasses
import gzip
import pathlib
from collections.abc import Iterator

from data_prep.schema import UnexpectedFilesError

ORIGINAL_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
TIDY_SPLITS = {"train": "train", "val": "validation", "test": "test"}
# Listed in the original captions, but the release has no such image.
_WITHOUT_IMAGE = "2258277193_586949ec62.jpg.1"


@dataclasses.dataclass(frozen=True)
class Captions:
    """Captions and splits.

    Attributes:
      texts: file name -> its five captions.
      splits: split -> file names.
    """

    texts: dict[str, list[str]]
    splits: dict[str, list[str]]

    def __post_init__(self) -> None:
        for name, texts in self.texts.items():
            if len(texts) != 5 or not all(texts):
                raise UnexpectedFilesError(
                    f"Flickr8k image {name} does not have five captions: {texts}"
                )


@dataclasses.dataclass(frozen=True)
class Rating:
    """One judged pair: does caption number `caption_idx` of `caption_image` describe `image`?"""

    task: str
    image: str
    caption_image: str
    caption_idx: int
    score: float
    rater_scores: tuple[float, ...]


def read_captions(folder: pathlib.Path) -> Captions:
    """Reads all captions and the three splits.

    Raises:
      FileNotFoundError: a file of the layout that was found is missing.
      UnexpectedFilesError: an image does not have exactly five captions.
    """
    texts: dict[str, list[str]] = {}
    splits: dict[str, list[str]] = {split: [] for split in ORIGINAL_SPLITS.values()}
    if (folder / "captions.csv.gz").exists():
        for row in _read_csv(folder / "captions.csv.gz"):
            captions = texts.setdefault(row["image"], [""] * 5)
            captions[int(row["caption_idx"])] = row["caption"]
            if row["caption_idx"] == "0" and row["split"] in TIDY_SPLITS:
                splits[TIDY_SPLITS[row["split"]]].append(row["image"])
        return Captions(texts, splits)
    for key, caption in _read_tsv(folder / "Flickr8k.token.txt"):
        image, number = key.split("#")
        if image != _WITHOUT_IMAGE:
            texts.setdefault(image, [""] * 5)[int(number)] = caption
    for name, split in ORIGINAL_SPLITS.items():
        splits[split] = [image for (image,) in _read_tsv(folder / f"Flickr_8k.{name}Images.txt")]
    return Captions(texts, splits)


def read_ratings(folder: pathlib.Path) -> Iterator[Rating]:
    """Reads the judgements of experts (task `expert`, 1 to 4) and crowd (`crowd`, 0 to 1).

    The score is the mean of the three experts, and the fraction of the crowd that said yes.

    Raises:
      FileNotFoundError: a file is missing.
    """
    if (folder / "expert_annotations.csv").exists():
        for row in _read_csv(folder / "expert_annotations.csv"):
            raters = tuple(float(row[f"rating{k}"]) for k in (1, 2, 3))
            caption = (row["caption_image"], int(row["caption_idx"]))
            yield Rating("expert", row["image"], *caption, sum(raters) / 3, raters)
        for row in _read_csv(folder / "crowdflower_annotations.csv.gz"):
            caption = (row["caption_image"], int(row["caption_idx"]))
            yield Rating("crowd", row["image"], *caption, float(row["yes_fraction"]), ())
        return
    for image, key, *scores in _read_tsv(folder / "ExpertAnnotations.txt"):
        caption_image, number = key.split("#")
        raters = tuple(float(score) for score in scores)
        yield Rating("expert", image, caption_image, int(number), sum(raters) / 3, raters)
    for image, key, fraction, *_ in _read_tsv(folder / "CrowdFlowerAnnotations.txt"):
        caption_image, number = key.split("#")
        yield Rating("crowd", image, caption_image, int(number), float(fraction), ())


def _read_csv(path: pathlib.Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _read_tsv(path: pathlib.Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield line.rstrip("\n").split("\t")
