"""Checks of prepared datasets, for `python -m data_prep.validate`.

A check yields rows (see `FigureRow`) with a figure, the expected figure and a verdict. Published
figures come from the builder (`RandomAccessBuilder.published_figures`).
"""

import itertools

from data_prep.checks import counts, identity
from data_prep.checks.figure_rows import FigureRow
from data_prep.checks.prepared_dataset import Prepared

CHECKS = (
    counts.records,
    counts.kinds,
    counts.relations,
    identity.ids,
    identity.joins,
    identity.copies,
    identity.pairs,
    counts.contents,
)


def check(dataset: Prepared) -> list[FigureRow]:
    """Applies all checks."""
    return list(itertools.chain.from_iterable(function(dataset) for function in CHECKS))
