"""Which classes a classification takes for which: charts, and pictures of the worst confusions."""

from typing import Any

import numpy as np

from xmodal.core.charts import Bar, Bars, Chart, Matrix
from xmodal.core.page import Group, PageItem, PageRow, Section
from xmodal.evals.labels.split import name_image
from xmodal.evals.reports.results import Result

_MATRIX = 20  # Most classes of a matrix; of more, pairs are shown.
_SHOWN = 30  # Classes, and pairs of them.
_PICTURED, _PICTURES = 6, 5  # Confusions with pictures, and pictures of each.


def count_confusions(result: Result) -> np.ndarray:
    """Returns how many images of every class (row) were taken for every class, int [C, C]."""
    own, predicted, names = (np.asarray(result.classes[x]) for x in ("own", "predicted", "names"))
    pairs = np.bincount(own * len(names) + predicted, minlength=len(names) ** 2)
    return pairs.reshape(len(names), -1)


def find_worst(counts: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Returns the most frequent confusions: pairs of an image's class and the predicted one."""
    wrong = counts * (1 - np.eye(len(counts), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    return [divmod(int(at), len(counts)) for at in order if wrong.flat[at]]


def chart_classes(result: Result) -> list[Chart]:
    """Returns the accuracy of every class, and the matrix or the list of confusions."""
    if not result.classes:
        return []
    from scipy import stats  # Slow to import, and few evaluations are classifications.

    counts, names = count_confusions(result), [*map(str, result.classes["names"])]
    bars = []
    for name, right, size in zip(names, np.diag(counts), counts.sum(axis=1), strict=True):
        if size:
            low, high = 100 * np.array(stats.binomtest(right, size).proportion_ci(method="wilson"))
            bars.append(Bar(name, 100 * right / size, low, high, 100 / len(names)))
    worst = sorted(bars, key=lambda bar: bar.value)[:_SHOWN]
    note = f"The worst {len(worst)} of {len(bars)}. Line: 95 % interval (Wilson). Dashed: a guess."
    found: list[Chart] = [Bars("Accuracy of classes", worst, note)]
    if len(names) <= _MATRIX:
        return [*found, Matrix("Confusions", names, counts, "class of the image", "predicted")]
    pairs = [Bar(f"{names[a]} → {names[b]}", counts[a, b]) for a, b in find_worst(counts, _SHOWN)]
    return [*found, Bars("Most frequent confusions", pairs, "Class → predicted: images.", 0)]


def picture_confusions(split: Any, result: Result) -> list[Group]:
    """Returns pictures of the most frequent confusions; none without pictures or mistakes.

    Args:
      split: the evaluated `Split`.
      result: its classification, whose images are sorted by id.
    """
    if not (result.classes and getattr(split, "has_pictures", False)):
        return []
    own, predicted, names = (np.asarray(result.classes[x]) for x in ("own", "predicted", "names"))
    order, counts = np.argsort(split.image_ids, kind="stable"), count_confusions(result)
    sections = []
    for a, b in find_worst(counts, _PICTURED):
        rows = order[np.flatnonzero((own == a) & (predicted == b))[:_PICTURES]]
        labels = [name_image(split, int(split.image_ids[row])) for row in rows]
        items = [
            PageItem(picture=picture, alt=f"{label}: {names[a]}", notes=[label])
            for picture, label in zip(split.pictures(rows), labels, strict=True)
        ]
        title = f"{names[a]} taken for {names[b]}: {counts[a, b]:,} of {counts[a].sum():,}"
        sections.append(Section(title, [PageRow(items)]))
    return [Group("Most frequent confusions", sections)] * bool(sections)
