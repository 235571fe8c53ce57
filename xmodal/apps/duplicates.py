"""Near duplicates among the pictures of an index: groups of them, as a page and a table.

Two pictures are near duplicates if the cosine of their vectors reaches a threshold. Cosines of
unrelated pictures depend on the model, so by default it is 5 standard deviations above the mean of
random pairs. See the README of search for its precision and recall.
"""

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from xmodal.api.search.formats import show_item
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.pictures import ItemPictures, open_upright
from xmodal.core.files import csv_text
from xmodal.core.page import Group, Page, PageItem, PageRow, Section, encode_jpeg
from xmodal.evals.evaluators.classification import to_unit

_BLOCK = 1024  # Pictures that are compared with all others at a time.
_DEVIATIONS, _SAMPLE = 5, 20_000
_SHOWN = 100  # Groups on the page.
_COLUMNS: tuple[object, ...] = ("group", "file", "cosine")


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


def make_duplicates(gallery: IndexGallery, threshold: float | None) -> tuple[str, dict[str, str]]:
    """Returns a line about the near duplicates of a gallery, and the files to write.

    Args:
      gallery: pictures.
      threshold: see `find_pairs`.
    """
    pictures = ItemPictures(gallery)

    def show(row: int, cosine: float) -> PageItem:
        source, name, notes = pictures.find(row), gallery.names[row], [f"cosine {cosine:.3f}"]
        small = None
        if source is not None:
            picture = open_upright(source)
            small = encode_jpeg(picture, 320)
            notes.append("{} x {}".format(*picture.size))
        # Copies in other folders may have the same name.
        place = name.removeprefix(gallery.folder).rpartition("/")[0]
        return show_item(name, small, [*notes, place] if place else notes)

    threshold, pairs = find_pairs(gallery.vectors, threshold)
    ends, size = pairs[:, :2].astype(np.int64).T, len(gallery.names)
    graph = coo_matrix((pairs[:, 2], tuple(ends)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    groups: dict[int, dict[int, float]] = {}  # Its pictures, with the largest cosine of each.
    for row, cosine in zip(ends.T.ravel().tolist(), pairs[:, 2].repeat(2).tolist(), strict=True):
        groups.setdefault(labels[row], {}).setdefault(row, cosine)
    sections, rows = [], [_COLUMNS]
    for number, group in enumerate(groups.values(), 1):
        rows += [(number, gallery.names[row], f"{cosine:.4f}") for row, cosine in group.items()]
        if number <= _SHOWN:
            items = [show(row, cosine) for row, cosine in group.items()]
            sections.append(Section(f"Group {number}: {len(items)} pictures", [PageRow(items)]))
    line = f"{len(pairs):,} pairs in {len(groups):,} groups, cosine at least {threshold:.3f}"
    note = f"{line}; the most similar first, at most {_SHOWN} groups."
    page = Page("Near duplicates", [Group("", sections)], [note])
    return line, {"duplicates.html": page.to_html(), "duplicates.csv": csv_text(rows)}
