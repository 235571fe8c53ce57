"""Checks of prepared datasets, for `python -m data_prep.validate`.

A check yields rows (see `FigureRow`) with a figure, the expected figure and a verdict. Published
figures come from the builder (`RandomAccessBuilder.published_figures`).
"""

from collections.abc import Callable, Iterable

from data_prep.checks import counts, identity
from data_prep.checks.figure_rows import FigureRow, missing_rows
from data_prep.checks.prepared_dataset import Prepared

CHECKS: tuple[Callable[[Prepared], Iterable[FigureRow]], ...] = (
    counts.readable,
    counts.records,
    counts.kinds,
    counts.positives,
    counts.relations,
    identity.ids,
    identity.disjoint_ids,
    identity.joins,
    identity.copies,
    identity.leaks,
    counts.texts,
    counts.scores,
    identity.pairs,
    identity.structure,
    counts.images,
    counts.hashes,
)


def check(dataset: Prepared) -> list[FigureRow]:
    """Applies all checks."""
    rows = [row for function in CHECKS for row in function(dataset)]
    return rows + missing_rows(dataset.figures, rows, part=dataset.is_part)
