"""Classification of images: accuracies of any scores of images and classes, with intervals."""

import dataclasses
import itertools
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.names import name_key
from xmodal.evals.evaluators.evaluator import Evaluator, Options
from xmodal.evals.labels.split import Split
from xmodal.evals.reports.paired_differences import check_numbers
from xmodal.evals.reports.results import Numbers
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.reports.uncertainty import Resamples, compute_interval
from xmodal.evals.scores.galleries import order_embeddings
from xmodal.evals.scores.line_files import read_lines
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.sources import Embeddings, Provider

DEPTHS = (1, 5)
MEAN_PER_CLASS = "mean_class_accuracy"


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(Options):
    """Options of every classification of images.

    Attributes:
      labels: label column with the class of every image, int [N].
      names: names of the classes, in the order of their numbers, also in a file that ends in .txt,
        one per line; if empty, those of the dataset.
    """

    labels: str = "label"
    names: tuple[str, ...] = ()

    @property
    def labels_read(self) -> tuple[str, ...]:
        """See `Options`."""
        return (self.labels,)

    def default_metric(self, dataset: str) -> str:
        """See `Options`."""
        del dataset
        return "accuracy@1"


@dataclasses.dataclass(frozen=True)
class ProbeOptions(ClassificationOptions):
    """Options of classifiers that are trained on the features of a split.

    Attributes:
      train_split: split of the same dataset to train on.
    """

    train_split: str = "train"

    @property
    def splits_read(self) -> tuple[str, ...]:
        """See `Options`."""
        return (self.train_split,)


class Classifier(NamedTuple):
    """A way to score images and classes.

    Attributes:
      describe: (options) -> a sentence on the method, for the report.
      score: (evaluator, provider) -> scores of images and classes, float [N, C], and other figures
        of the result.
      ranks_by: names the scores.
      asks: see `Evaluator`.
      figures: tags of the other figures.
    """

    describe: Callable[[Any], str]
    score: Callable[[Any, Provider], tuple[np.ndarray, dict[str, float]]]
    ranks_by: str = "cosine"
    asks: frozenset[str] = frozenset()
    figures: tuple[str, ...] = ()


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
    names: tuple[str, ...]

    def __init__(self, classifier: Classifier, where: str, options: Any, *given: Any) -> None:
        """Takes a classifier, and the arguments of `make_evaluator`."""
        self._classifier = classifier
        self.ranks_by, self.asks = classifier.ranks_by, classifier.asks
        self._train: Split | None = None
        self._trained = np.zeros(0, np.int64)  # The classes of training images.
        super().__init__(where, options, *given)

    def _read(self, sides: Collection[str]) -> None:
        options, split = self.options, self._split
        if missing := sorted({"image", *self.asks} - set(sides)):
            raise UserError(
                f"{self._where} ({options.type}) needs a model with {' and '.join(missing)} "
                f"embeddings; this one has only {' and '.join(sides)}."
            )
        if isinstance(options, ProbeOptions):
            if shared := _find_shared(options.train_split, split.split):
                raise UserError(
                    f"{self._where} learns from the split {options.train_split!r}, of which it "
                    f"evaluates {shared!r}; name another one in {self._where}.train_split."
                )
            self._train = split.beside(options.train_split)
            self._trained = self._read_classes(self._train)
        self._classes = self._read_classes(split)
        highest = max(self._classes.max(initial=0), self._trained.max(initial=0))
        given = read_lines(options.names, f"{self._where}.names")
        names = given or split.label_names.get(options.labels, ())
        if not names and "text" in self.asks:
            raise UserError(
                f"{split.name} has no names of the classes in {options.labels!r}; list them in "
                f"{self._where}.names, in the order of their numbers."
            )
        if names and len(names) <= highest:
            raise UserError(
                f"{self._where} has names for {len(names)} classes, but {split.name} has images of "
                f"class {highest}, counted from 0; name all classes in {self._where}.names."
            )
        self.names = tuple(names) or tuple(map(str, range(highest + 1)))
        self._label_hash.add("images by id", np.asarray(split.image_ids), self._classes)
        if self._train is not None:
            self._label_hash.add("training", np.asarray(self._train.image_ids), self._trained)
        if "text" in self.asks:
            numbers = np.array([zlib.crc32(name.encode()) for name in self.names])
            self._label_hash.add("names", np.arange(len(numbers)), numbers)
        self._definition = (
            f"Classes of {len(self._classes):,} images among {len(self.names):,}, from the column "
            f"{options.labels!r}: {self._classifier.describe(options)} Intervals: 95 %, from "
            f"{options.bootstrap_samples:,} bootstrap samples of the images; seed {options.seed}."
        )

    def tags(self, sides: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        del sides
        accuracies = [f"accuracy@{depth}" for depth in self._depths]
        counts = ["queries", "gallery", "tied_queries"]
        return [*accuracies, MEAN_PER_CLASS, *counts, *self._classifier.figures]

    def run(self, provider: Provider) -> list[Numbers]:
        """See `Evaluator`."""
        scores, figures = self._classifier.score(self, provider)
        own = np.take_along_axis(scores, self._classes[:, None], axis=1)
        better, equal = (each.sum(axis=1, keepdims=True) for each in (scores > own, scores == own))
        # A class without a vote among neighbors is not found.
        hits = np.clip((self._depths - better) / equal, 0, 1) * np.isfinite(own)
        tied = (equal[:, 0] > 1) & np.isfinite(own[:, 0])
        # By id, so that images of models whose splits have another order are paired.
        order = np.argsort(self._split.image_ids, kind="stable")
        by_id, options = (hits[order], self._classes[order]), self.options
        values = compute_accuracies(
            *by_id, depths=self._depths, samples=options.bootstrap_samples, seed=options.seed
        )
        counts = {"queries": len(hits), "gallery": len(self.names), "tied_queries": tied.sum()}
        metrics = values | {tag: float(x) for tag, x in counts.items()} | figures
        of_images = score_images(*by_id, self._depths)
        return [self._numbers(metrics, of_images, "images")]

    def check_comparable(self, other: StoredResults) -> None:
        """See `Evaluator`."""
        check_numbers(other, self._numbers({}, samples="images"))

    def warnings(self) -> list[str]:
        """See `Evaluator`; compares the images of both splits by their content."""
        found = []
        if "text" in self.asks:
            keys = [name_key(name) for name in self.names]
            _, at, counts = np.unique(keys, return_inverse=True, return_counts=True)
            if same := [repr(self.names[each]) for each in np.flatnonzero(counts[at] > 1)]:
                found.append(f"CLASSES WITH THE SAME NAME: {', '.join(same)}.")
        if self._train is None:
            return found
        classes, trained = self._classes, self._trained
        of_train = f"{self._train.name} {self._train.split}"
        if len(unseen := np.setdiff1d(classes, trained)):
            names = ", ".join(repr(self.names[each]) for each in unseen)
            found.append(f"CLASSES WITHOUT TRAINING IMAGES: {of_train} has none of {names}.")
        own, others = self._split.image_hashes, self._train.image_hashes
        both, labels = np.append(own, others).tolist(), np.append(classes, trained)
        copied = np.isin(own, others).sum()
        mixed = len(set(zip(both, labels, strict=False))) - len(set(both))  # No images, no pairs.
        if copied or mixed:
            found.append(
                f"COPIES: {copied:,} of {len(own):,} evaluated images are also in {of_train}; "
                f"{mixed:,} images of the two splits are in several classes."
            )
        return found

    def _chance(self) -> dict[str, float]:
        classes = len(self.names)
        accuracies = {f"accuracy@{depth}": 100.0 * depth / classes for depth in self._depths}
        return accuracies | {MEAN_PER_CLASS: 100.0 / classes}

    @property
    def _depths(self) -> list[int]:
        """1, and the other depths below the number of classes."""
        return [depth for depth in DEPTHS if depth == 1 or depth < len(self.names)]

    def _read_classes(self, split: Split) -> np.ndarray:
        """The class of every image of a split, int64 [N]."""
        if self.options.labels not in split.labels:
            self._column(self.options.labels)  # Raises the error that lists the columns.
        column = np.asarray(split.labels[self.options.labels])
        if column.ndim != 1 or not np.issubdtype(column.dtype, np.integer):
            raise UserError(
                f"{self._where}.labels={self.options.labels!r} is {column.dtype} "
                f"{list(column.shape)}; classes must be one integer per image."
            )
        if column.min(initial=0) < 0:
            raise UserError(
                f"{split.name} {split.split} has images of class {column.min()}, which are not "
                "labeled; evaluate a split whose labels are published."
            )
        return column.astype(np.int64)

    def features(self, provider: Provider, split: Split | None = None) -> np.ndarray:
        """Returns image embeddings, float32 [N, D] of unit length; of the evaluated split."""
        options, split = self.options, split or self._split
        found = provider.items(split, similarity=options.similarity, batch_size=options.batch_size)
        if not isinstance(found, Embeddings) or found.images is None:
            raise UserError(f"{self._where} needs embeddings of images; {found.place} has none.")
        if not np.isin(split.image_ids, np.asarray(found.image_ids)).all():
            raise UserError(
                f"{found.place} lacks images of {split.name} {split.split}, which {self._where} "
                "reads: save the embeddings of all of them in one file."
            )
        return self.unit(order_embeddings(found, split).images, found.place)

    def train_features(self, provider: Provider) -> tuple[np.ndarray, np.ndarray]:
        """Returns `features` of the training split, and their classes, by id.

        Raises:
          UserError: ids of a file do not distinguish the splits.
        """
        assert self._train is not None
        shared = np.intersect1d(self._train.image_ids, self._split.image_ids)
        if isinstance(provider, Embeddings) and len(shared):
            raise UserError(
                f"{self._where}: the splits {self._train.split!r} and {self._split.split!r} of "
                f"{self._split.name} share {len(shared):,} image ids, the first is {shared[0]}, so "
                f"{provider.place} does not distinguish their images. Evaluate the model itself, "
                "with --run=RUN or with the functions of xmodal.evaluate, or prepare the dataset "
                "with ids that are unique over its splits."
            )
        order = np.argsort(self._train.image_ids, kind="stable")
        return self.features(provider, self._train)[order], self._trained[order]

    def unit(self, vectors: np.ndarray | None, place: str) -> np.ndarray:
        """Returns vectors of unit length, float32 [N, D]; zeros stay zeros."""
        assert vectors is not None
        if vectors.ndim != 2:
            raise UserError(
                f"{self._where} classifies by one vector per item, and {place} has "
                f"{vectors.shape[1]}; name an array with one vector, such as the mean, with "
                f"{self._where}.similarity={{'name': 'cosine', 'field': 'mean'}}."
            )
        if bad := count_not_finite(vectors):
            raise UserError(f"{bad:,} of {len(vectors):,} vectors of {place} are not finite.")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


def _find_shared(split: str, other: str) -> str:
    """Returns a part of a split in TFDS notation that another one has; "" if none is known.

    Different slices of a split may be disjoint.
    """
    for one, two in itertools.product(split.split("+"), other.split("+")):
        one, two = one.strip(), two.strip()
        if one == two or one.partition("[")[0] == two.partition("[")[0] in (one, two):
            return two
    return ""


def score_images(
    hits: np.ndarray, classes: np.ndarray, depths: Sequence[int]
) -> dict[str, list[float]]:
    """Returns the values of single images whose means are the accuracies, for `compare`.

    Args:
      hits: float [N, K], see `compute_accuracies`.
      classes: int [N], the class of every image.
      depths: K of every `accuracy@K`; 1 is one of them.
    """
    _, place, counts = np.unique(classes, return_inverse=True, return_counts=True)
    found = {f"accuracy@{depth}": 100.0 * hit for depth, hit in zip(depths, hits.T, strict=True)}
    # An image of a small class weighs more.
    found[MEAN_PER_CLASS] = found["accuracy@1"] * len(hits) / (len(counts) * counts[place])
    return {tag: each.tolist() for tag, each in found.items()}


def compute_accuracies(
    hits: np.ndarray, classes: np.ndarray, *, depths: Sequence[int], samples: int, seed: int
) -> dict[str, float]:
    """Returns accuracies in percent, each with `_low` and `_high`, its 95 % interval.

    Args:
      hits: float [N, K], whether the own class of every image is among the first of each depth,
        from 0 to 1.
      classes: int [N], this class.
      depths: depth of every `accuracy@DEPTH`, K in all; the first is 1.
      samples: number S of bootstrap samples of the images.
      seed: their seed.
    """
    known, place = np.unique(classes, return_inverse=True)
    of_class = np.eye(len(known))[place]

    def means(sums: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Accuracies [S, len(depths) + 1] from a function of columns [N, M] to sums [S, M]."""
        right, count = sums(of_class * hits[:, :1]), sums(of_class)
        # A class that a sample lacks does not count in its mean.
        shares = np.divide(right, count, out=np.full(right.shape, np.nan), where=count > 0)
        of_images = sums(hits) / count.sum(axis=1, keepdims=True)
        return 100 * np.concatenate([of_images, np.nanmean(shares, axis=1)[:, None]], axis=1)

    drawn = Resamples(len(hits), samples=samples, seed=seed)
    (value,), sampled = means(lambda each: each.sum(axis=0)[None]), means(drawn.compute_sums)
    metrics: dict[str, float] = {}
    names = [*(f"accuracy@{depth}" for depth in depths), MEAN_PER_CLASS]
    for name, found, repeats in zip(names, value, sampled.T, strict=True):
        metrics[name] = float(found)
        metrics[f"{name}_low"], metrics[f"{name}_high"] = compute_interval(repeats)
    return metrics
