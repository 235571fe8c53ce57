"""What `python -m data_prep.validate` looks at: functions of a prepared dataset, in a table.

A check yields rows (see `rows.Row`): a figure that was found, what is expected, and a verdict. What
a dataset is expected to hold stands in `figures.py` beside its builder.
"""

from collections.abc import Callable, Iterable

from data_prep.checks import contents, counting, identity, overlap, rated_pairs
from data_prep.checks.figures import missing
from data_prep.checks.prepared import Prepared
from data_prep.checks.rows import Row

CHECKS: tuple[Callable[[Prepared], Iterable[Row]], ...] = (
    counting.readable,
    counting.records,
    counting.kinds,
    counting.positives,
    counting.relations,
    identity.ids,
    identity.disjoint_ids,
    identity.joins,
    overlap.copies,
    overlap.leaks,
    contents.texts,
    contents.scores,
    rated_pairs.pairs,
    rated_pairs.structure,
    contents.images,
    contents.hashes,
)


def check(dataset: Prepared) -> list[Row]:
    """Applies all checks."""
    rows = [row for function in CHECKS for row in function(dataset)]
    return rows + missing(dataset.figures, rows, part=dataset.is_part)
