"""Benchmarks of every dataset, as data: definitions.toml has their positives and metrics."""

import dataclasses
import functools
import pathlib
import tomllib
from typing import Any

from xmodal.core.config import read

COCO = "coco_captions"
# The file in which `xmodal annotate aggregate` writes the dataset, split and name of its labels.
STUDY = "study.json"
# Direction -> (query modality, gallery modality).
DIRECTIONS = {
    "i2t": ("image", "text"),
    "t2i": ("text", "image"),
    "t2t": ("text", "text"),
    "i2i": ("image", "image"),
}
# Modality -> the kind of its items, as in names of columns and in messages.
KINDS = {"image": "image", "text": "caption"}
# Rating -> the modalities of the left and the right item.
RATING_SIDES = {
    "sts": ("text", "text"),
    "sis": ("image", "image"),
    "sits": ("text", "image"),
    "expert": ("text", "image"),
    "crowd": ("text", "image"),
}
# Public datasets, whose published protocols define the positives. In all other datasets, captions
# of equal texts are one text, and all of its images are positives.
PUBLIC = frozenset(
    ("cite", "clue", "coco_captions", "conceptual_captions", "crisscrossed_shapes", "flickr30k")
    + ("flickr8k", "pinterest", "region_features", "sbu")
)


@dataclasses.dataclass(frozen=True)
class Definition:
    """The rule that makes a benchmark of the labels of a dataset.

    Positives come from one of three sources: a released list, plausible matches (`zetas`), or the
    dataset's own pairs together with well rated ones.

    Attributes:
      name: prefix of all its metrics.
      sentence: description of the positives, for reports.
      title: display name, for reports; "" for the name alone.
      published: `Benchmark.label_hash` of the labels that papers use; "" for none.
      directions: directions to evaluate; a direction without any positive is left out.
      metrics: names, see `xmodal.evals.labels.types.DirectionLabels`.
      own: whether a caption and its image, and captions of one image, are positives.
      rated: ratings whose high scores make positives, see `cxc_files.THRESHOLDS`; own pairs are
        positive whatever their rating.
      correlations: ratings whose scores are compared with the model's.
      released: name of a released list of positives; if the labels have it, nothing else counts.
      unreachable: positives of the released list that are known to be outside the split.
      zetas: largest Hamming distance between the category vectors of two images that match; the
        own pair is included. Metrics are averaged over several.
      labeled_gallery: whether items without a category are removed from the galleries.
      folded: whether a query is compared only with the items of its fold of 1,000 images.
      shortlisted: whether there are only the images on VinVL's list, and their captions.
      cap: largest R of a query.
      variant: whether the benchmark is computed only if it is named.
    """

    name: str
    sentence: str = "A caption and its own image, and captions of one image."
    title: str = ""
    published: str = ""
    directions: tuple[str, ...] = tuple(DIRECTIONS)
    metrics: tuple[str, ...] = ("recall@1", "recall@5", "recall@10", "median_rank")
    own: bool = True
    rated: tuple[str, ...] = ()
    correlations: tuple[str, ...] = ()
    released: str = ""
    unreachable: int = 0
    zetas: tuple[int, ...] = ()
    labeled_gallery: bool = False
    folded: bool = False
    shortlisted: bool = False
    cap: int | None = None
    variant: bool = False


def definitions_of(dataset: str) -> dict[str, Definition]:
    """Benchmark name -> definition; a dataset without an entry has one of its own pairs."""
    return _read().get(dataset) or {dataset: Definition(dataset)}


def define(kind: str, name: str, **changes: Any) -> Definition:
    """Returns a benchmark of labels that are added to a dataset, of the kind "judged" or "cxc"."""
    usual = _read()["annotations"][kind]
    return dataclasses.replace(usual, name=name, sentence=usual.sentence.format(name), **changes)


def find_title(benchmark: str) -> str:
    """Returns the display name of a benchmark of any dataset; "" if it has none."""
    return next((each[benchmark].title for each in _read().values() if benchmark in each), "")


@functools.cache
def _read() -> dict[str, dict[str, Definition]]:
    text = pathlib.Path(__file__).with_name("definitions.toml").read_text(encoding="utf-8")
    return {
        dataset: {x: read(Definition, x, {"name": x, **given}) for x, given in benchmarks.items()}
        for dataset, benchmarks in tomllib.loads(text).items()
    }
