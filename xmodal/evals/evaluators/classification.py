"""Classification of images: accuracies of any scores of images and classes, with intervals."""

import abc
import dataclasses
import itertools
import zlib
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.evaluators.evaluator import Evaluator, Options
from xmodal.evals.labels.split import Split
from xmodal.evals.reports.results import Result
from xmodal.evals.reports.uncertainty import compute_interval, draw_resamples
from xmodal.evals.scores.files import lines_of
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.sources import ModelAdapter

DEPTHS = (1, 5)
MEAN_PER_CLASS = "mean_class_accuracy"


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(Options, abc.ABC):
    """Options of every classification of images, and the way to score images and classes.

    Attributes:
      labels: label column with the class of every image, int [N].
      names: names of the classes, in the order of their numbers, also in a file that ends in .txt,
        one per line; if empty, those of the dataset.
    """

    labels: str = "label"
    names: tuple[str, ...] = ()

    needs: ClassVar[frozenset[str]] = frozenset({"image"})
    ranks_by: ClassVar[str] = "cosine"
    figures: ClassVar[tuple[str, ...]] = ()  # Tags of other figures that `score` returns.

    def default_metric(self, dataset: str) -> str:
        """See `Options`."""
        return "accuracy@1"

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns a sentence on the method, for the report."""

    @abc.abstractmethod
    def score(
        self, evaluator: "ClassificationEvaluator", adapter: ModelAdapter
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Returns scores of images and classes, float [N, C], and other figures of the result."""


class ClassificationEvaluator(Evaluator):
    """Accuracies over the images of a split, see `Evaluator`.

    `accuracy@1` and `accuracy@5` are the shares of images whose own class is among the 1 or 5
    classes of the highest scores; equal scores share the places that are left, so that a constant
    model is at chance. `accuracy@5` exists for more than 5 classes only.
    `mean_class_accuracy` is the mean over classes of `accuracy@1` among the images of a class. All
    are in percent, with a 95 % interval from a bootstrap over images. `tied_queries` counts images
    for which another class scores the same as their own.

    Attributes:
      names: names of the classes.
    """

    options: ClassificationOptions
    samples = "images"
    _train: Split | None = None
    _trained = np.zeros(0, np.int64)  # The classes of training images.

    def _read(self, modalities: Collection[str]) -> None:
        options, split = self.options, self.split
        if train_split := getattr(options, "train_split", ""):
            if train_split == split.split:
                raise UserError(
                    f"{self._where} learns from the evaluated split, {train_split!r}; name another "
                    f"one in {self._where}.train_split."
                )
            self._train = split.beside(train_split)
            self._trained = self._read_classes(self._train)
        self._classes = self._read_classes(split)
        highest = max(self._classes.max(initial=0), self._trained.max(initial=0))
        names = read_lines(options.names) or split.label_names.get(options.labels, ())
        by_name = "text" in options.needs
        if len(names) <= highest and (names or by_name):
            raise UserError(
                f"{self._where} has names for {len(names)} classes, but {split.name} has images of "
                f"class {highest}, counted from 0, in {options.labels!r}; name all classes in "
                f"{self._where}.names, in the order of their numbers."
            )
        self.names = tuple(names) or tuple(map(str, range(highest + 1)))
        self._depths = [depth for depth in DEPTHS if depth == 1 or depth < len(self.names)]
        self._label_hash.add("images by id", np.asarray(split.image_ids), self._classes)
        if self._train is not None:
            self._label_hash.add("training", np.asarray(self._train.image_ids), self._trained)
        if by_name:
            numbers = np.array([zlib.crc32(name.encode()) for name in self.names])
            self._label_hash.add("names", np.arange(len(numbers)), numbers)
        self._definition = (
            f"Classes of {len(self._classes):,} images among {len(self.names):,}, from the column "
            f"{options.labels!r}: {options.describe()} Intervals: 95 %, from "
            f"{options.bootstrap_samples:,} bootstrap samples of the images; seed {options.seed}."
        )

    def tags(self, modalities: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        return [*self._chance(), "queries", "gallery", "tied_queries", *self.options.figures]

    def run(self, adapter: ModelAdapter) -> list[Result]:
        """See `Evaluator`."""
        scores, figures = self.options.score(self, adapter)
        own = np.take_along_axis(scores, self._classes[:, None], axis=1)
        better = np.count_nonzero(scores > own, axis=1)[:, None]
        equal = np.count_nonzero(scores == own, axis=1)[:, None]
        # A class without a vote among neighbors is not found.
        hits = np.clip((self._depths - better) / equal, 0, 1) * np.isfinite(own)
        tied = float(np.sum((equal > 1) & np.isfinite(own)))
        # By id, so that images of models whose splits have another order are paired.
        order, options = np.argsort(self.split.image_ids, kind="stable"), self.options
        metrics, of_images = compute_accuracies(
            hits[order], self._classes[order],
            depths=self._depths, samples=options.bootstrap_samples, seed=options.seed,
        )  # fmt: skip
        sizes = {"queries": float(len(hits)), "gallery": float(len(self.names))}
        found = self._result(metrics | sizes | {"tied_queries": tied} | figures, of_images)
        own, predicted = self._classes[order].tolist(), scores.argmax(axis=1)[order].tolist()
        classes = {"names": self.names, "own": own, "predicted": predicted}
        return [dataclasses.replace(found, classes=classes)]

    def warnings(self) -> list[str]:
        """See `Evaluator`; compares the images of both splits by their content."""
        if self._train is None:
            return []
        found, of_train = [], f"{self._train.name} {self._train.split}"
        if len(unseen := np.setdiff1d(self._classes, self._trained)):
            names = ", ".join(repr(self.names[each]) for each in unseen)
            found.append(f"CLASSES WITHOUT TRAINING IMAGES: {of_train} has none of {names}.")
        own = self.split.image_hashes
        if copied := np.isin(own, self._train.image_hashes).sum():
            found.append(f"COPIES: {copied:,} of {len(own):,} images are also in {of_train}.")
        return found

    def _chance(self) -> dict[str, float]:
        classes = len(self.names)
        accuracies = {f"accuracy@{depth}": 100.0 * depth / classes for depth in self._depths}
        return accuracies | {MEAN_PER_CLASS: 100.0 / classes}

    def _read_classes(self, split: Split) -> np.ndarray:
        """The class of every image of a split, int64 [N]."""
        column = self._column(self.options.labels, split)
        if column.ndim != 1 or column.dtype.kind not in "iu" or column.min(initial=0) < 0:
            raise UserError(
                f"{self._where}.labels={self.options.labels!r} is {column.dtype} "
                f"{list(column.shape)} from {column.min(initial=0)} in {split.name} {split.split}; "
                "classes must be one integer per image, and -1 stands for unpublished labels."
            )
        return column.astype(np.int64)

    def features(self, adapter: ModelAdapter, split: Split | None = None) -> np.ndarray:
        """Returns image embeddings, float32 [N, D] of unit length; of the evaluated split."""
        found = self._ordered(adapter, split)
        return self.unit(found.vectors("image"), found.place)

    def train_features(self, adapter: ModelAdapter) -> tuple[np.ndarray, np.ndarray]:
        """Returns `features` of the training split, and their classes, by id."""
        assert self._train is not None
        order = np.argsort(self._train.image_ids, kind="stable")
        return self.features(adapter, self._train)[order], self._trained[order]

    def unit(self, vectors: Any, place: str) -> np.ndarray:
        """Returns vectors of unit length, float32 [N, D]; zeros stay zeros."""
        return to_unit(vectors, place, self._where)


def to_unit(vectors: Any, place: str, where: str) -> np.ndarray:
    """Returns vectors of unit length, float32 [N, D]; zeros stay zeros.

    Args:
      vectors: [N, D].
      place: the model, for messages.
      where: the config of the evaluator, or the command.
    """
    if vectors.ndim != 2:
        raise UserError(
            f"{where} classifies by one vector per item, and {place} has "
            f"{vectors.shape[1]}; name an array with one vector, such as the mean, with "
            f"{where}.similarity={{'name': 'cosine', 'field': 'mean'}}."
        )
    if bad := count_not_finite(vectors):
        raise UserError(f"{bad:,} of {len(vectors):,} vectors of {place} are not finite.")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


def read_lines(entries: Sequence[str]) -> tuple[str, ...]:
    """Returns texts; of an entry that ends in .txt, the lines of that file that are not empty."""
    found = (lines_of(each) if each.endswith(".txt") else [each] for each in entries)
    return tuple(itertools.chain(*found))


def compute_accuracies(
    hits: np.ndarray, classes: np.ndarray, *, depths: Sequence[int], samples: int, seed: int
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Returns accuracies in percent, each with `_low` and `_high`, its 95 % interval.

    And the values of single images, whose means are the accuracies.

    Args:
      hits: float [N, K], whether the own class of every image is among the first of each depth,
        from 0 to 1.
      classes: int [N], this class.
      depths: depth of every `accuracy@DEPTH`, K in all; the first is 1.
      samples: number S of bootstrap samples of the images.
      seed: their seed.
    """
    _, place, counts = np.unique(classes, return_inverse=True, return_counts=True)
    of_images = dict(zip([f"accuracy@{depth}" for depth in depths], 100.0 * hits.T, strict=True))
    # An image of a small class weighs more.
    weights = len(hits) / (len(counts) * counts[place])
    of_images[MEAN_PER_CLASS] = of_images["accuracy@1"] * weights
    of_class, drawn = np.eye(len(counts))[place], draw_resamples(len(hits), samples, seed)
    right, count = drawn @ (of_class * hits[:, :1]), drawn @ of_class
    # A class that a sample lacks does not count in its mean.
    shares = np.divide(right, count, out=np.full(right.shape, np.nan), where=count > 0)
    sampled = [*(drawn @ hits).T / len(hits), np.nanmean(shares, axis=1)]
    metrics: dict[str, float] = {}
    for (name, values), repeats in zip(of_images.items(), sampled, strict=True):
        metrics[name] = float(np.mean(values))
        metrics[f"{name}_low"], metrics[f"{name}_high"] = compute_interval(100 * repeats)
    return metrics, {tag: each.tolist() for tag, each in of_images.items()}
