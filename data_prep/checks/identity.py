"""Checks of ids: each once, none negative, and those that refer to something find it."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.columns import Columns
from data_prep.checks.figures import Unknown
from data_prep.checks.prepared import Joined, Prepared
from data_prep.checks.rows import Row


def ids(dataset: Prepared) -> Iterator[Row]:
    """Ids of images and captions come once in a split, and no id is negative."""
    for split, columns in dataset.splits.items():
        for name in _unique(dataset, columns):
            yield dataset.row(f"{split}/{name} repeated", repeats(columns.ids[name].values), 0)
        negative = sum(int((column.values < 0).sum()) for column in columns.ids.values())
        yield dataset.row(f"{split}/ids below 0", negative, 0)


def disjoint_ids(dataset: Prepared) -> Iterator[Row]:
    """No image and no caption is in two splits."""
    for split, columns, earlier, earlier_columns in dataset.pairs_of_splits:
        for name in _unique(dataset, columns):
            shared = np.isin(columns.ids[name].values, earlier_columns.ids[name].values)
            yield dataset.row(f"{split}/{name} also in {earlier}", int(shared.sum()), 0)


def joins(dataset: Prepared) -> Iterator[Row]:
    """Ids that refer to images and captions of another dataset are in the same split there."""
    if not any(columns.references for columns in dataset.splits.values()):
        return
    joined = dataset.joined()
    for split, columns in dataset.splits.items():
        for feature, column in columns.references.items():
            name = f"{split}/{feature} not found"
            if joined is None:
                names = " or ".join(dataset.join_names) or "any dataset"
                found = len(np.unique(column.values))
                note = f"{found:,} different ids; not looked up, {names} is not prepared"
                yield dataset.row(f"{name} (not checked)", "-", Unknown(note))
            else:
                yield _not_found(dataset, name, column.values, joined, feature, split)


def _unique(dataset: Prepared, columns: Columns) -> list[str]:
    """Features whose ids come once, in a fixed order."""
    return [name for name in dataset.builder.UNIQUE_IDS if name in columns.ids]


def _not_found(
    dataset: Prepared, name: str, values: np.ndarray, joined: Joined, feature: str, split: str
) -> Row:
    wanted = np.unique(values)
    missing = int(np.isin(wanted, joined.ids(feature, split), invert=True).sum())
    note = f"of {len(wanted):,} in {joined.name}"
    if missing and joined.is_part:
        note += ", which is a part of what was published"
        return Row(name, missing, None, "noted", note)
    return dataset.row(name, missing, 0, note=note)


def repeats(values: np.ndarray) -> int:
    """Values that came before, int64 or uint64 [V]."""
    return len(values) - len(np.unique(values))
