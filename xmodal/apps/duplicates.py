"""Near duplicates among the pictures of an index: groups of them, as a page and a table.

Two pictures are near duplicates if the cosine of their vectors reaches a threshold. Cosines of
unrelated pictures depend on the model, so by default it is 5 standard deviations above the mean of
random pairs. See the README of search for its precision and recall.
"""

import collections
from collections.abc import Callable, Hashable

import numpy as np
import PIL.Image
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from xmodal.api.search.formats import show_item
from xmodal.api.search.gallery import IndexGallery
from xmodal.core.files import csv_text
from xmodal.core.page import Group, Page, PageRow, Section
from xmodal.evals.evaluators.classification import to_unit

_BLOCK = 1024  # Pictures that are compared with all others at a time.
_DEVIATIONS, _SAMPLE = 5, 20_000
_SHOWN = 100  # Groups on the page.
_COLUMNS: tuple[object, ...] = ("group", "file", "cosine", "exact_copy")


def find_pairs(vectors: np.ndarray, threshold: float | None = None) -> tuple[float, np.ndarray]:
    """Returns the threshold, and two positions and a cosine per pair, float64 [P, 3], descending.

    Args:
      vectors: float32 [N, D], or [N, K, D], of which the mean over K is compared.
      threshold: least cosine of a pair; None for one by the cosines of random pairs.
    """
    vectors = vectors.mean(axis=1) if vectors.ndim == 3 else vectors
    unit = to_unit(vectors, "the index", "duplicates")
    if threshold is None:
        left, right = np.random.default_rng(0).integers(len(unit), size=(2, _SAMPLE))
        drawn = np.einsum("nd,nd->n", unit[left], unit[right])[left != right]
        threshold = min(float(drawn.mean() + _DEVIATIONS * drawn.std()), 0.99)
    found = []
    for start in range(0, len(unit), _BLOCK):
        cosines = unit[start : start + _BLOCK] @ unit[start:].T
        at = np.nonzero(np.triu(cosines >= threshold, 1))
        found.append(np.column_stack([*at, cosines[at]]) + [start, start, 0])
    pairs = np.concatenate(found)
    return threshold, pairs[np.argsort(-pairs[:, 2], kind="stable")]


def make_duplicates(
    gallery: IndexGallery,
    open_picture: Callable[[int], PIL.Image.Image | None],
    threshold: float | None,
) -> tuple[str, dict[str, str]]:
    """Returns a line about the near duplicates of a gallery, and the files to write.

    Args:
      gallery: pictures.
      open_picture: returns the picture of an item, None if there is none to show.
      threshold: see `find_pairs`.
    """
    threshold, pairs = find_pairs(gallery.vectors, threshold)
    ends, size = pairs[:, :2].astype(np.int64).T, len(gallery.names)
    graph = coo_matrix((pairs[:, 2], tuple(ends)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    groups: dict[int, dict[int, float]] = {}  # Its pictures, with the largest cosine of each.
    for row, cosine in zip(ends.T.ravel().tolist(), pairs[:, 2].repeat(2).tolist(), strict=True):
        groups.setdefault(labels[row], {}).setdefault(row, cosine)
    sections, rows = [], [_COLUMNS]
    for number, group in enumerate(groups.values(), 1):
        pictures, items = [_shrink(open_picture(row)) for row in group], []
        counts = collections.Counter(pixels for _, pixels in pictures if pixels)
        for (row, cosine), (small, pixels) in zip(group.items(), pictures, strict=True):
            name, mark = gallery.names[row], "exact copy" if counts[pixels] > 1 else ""
            rows.append((number, name, f"{cosine:.4f}", int(bool(mark))))
            items.append(show_item(name, small, [f"cosine {cosine:.3f}"], mark))
        sections.append(Section(f"Group {number}: {len(items)} pictures", [PageRow(items)]))
        del sections[_SHOWN:]
    line = f"{len(pairs):,} pairs in {len(groups):,} groups, cosine at least {threshold:.3f}"
    note = f"{line}; the most similar first, at most {_SHOWN} groups."
    page = Page("Near duplicates", [Group("", sections)], [note])
    return line, {"duplicates.html": page.to_html(), "duplicates.csv": csv_text(rows)}


def _shrink(picture: PIL.Image.Image | None) -> tuple[PIL.Image.Image | None, Hashable]:
    """A picture as a page shows it, and what only its exact copies share."""
    if picture is None:
        return None, None
    pixels = picture.size, hash(picture.convert("RGB").tobytes())
    picture.thumbnail((320, 320))
    return picture, pixels
