"""Checks of how much there is: records, captions, kinds of rows, labels, what was left out."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.prepared import Prepared
from data_prep.checks.rows import Row


def readable(dataset: Prepared) -> Iterator[Row]:
    """Every record that the description promises can be read."""
    for split, walked in dataset.walked.items():
        promised = dataset.builder.info.splits[split].num_examples
        found, note = walked.columns.records, walked.unreadable
        yield dataset.row(f"{split}/records read", found, promised, note=note)


def records(dataset: Prepared) -> Iterator[Row]:
    """Records and their captions, against the published counts."""
    for split, columns in dataset.splits.items():
        yield dataset.row(f"{split}/records", columns.records)
        left_out = dataset.metadata.get("left_out", {}).get(split, {})
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(left_out.items()))
        yield dataset.row(f"{split}/records left out", sum(left_out.values()), note=reasons)
        listed = f"{split}/records with those left out"
        published = dataset.figure(listed) or dataset.figure(f"{split}/records")
        if left_out or dataset.figure(listed):
            yield dataset.row(listed, columns.records + sum(left_out.values()), published)
        if "captions" in columns.texts and columns.records:
            lengths = columns.texts["captions"].lengths
            yield dataset.row(f"{split}/captions", int(lengths.sum()))
            span = _span(int(lengths.min()), int(lengths.max()))
            yield dataset.row(f"{split}/captions of an image", span)


def kinds(dataset: Prepared) -> Iterator[Row]:
    """Rows of each kind (task, method, year, ...)."""
    for split, columns in dataset.splits.items():
        for kind, scores in sorted(columns.groups.items()):
            yield dataset.row(f"{split}/rows with {kind}", scores.rows)


def relations(dataset: Prepared) -> Iterator[Row]:
    """Records in which each relation holds, and labels that are neither 0 nor 1."""
    for split, columns in dataset.splits.items():
        if columns.positives is None:
            continue
        names = dataset.metadata.get("relations", range(len(columns.positives)))
        for name, count in zip(names, columns.positives.tolist(), strict=True):
            yield dataset.row(f"{split}/relation {name}", count)
        yield dataset.row(f"{split}/relations other than 0 and 1", columns.odd_relations, 0)


def positives(dataset: Prepared) -> Iterator[Row]:
    """Positives of queries, by task."""
    for split, columns in dataset.splits.items():
        if "positive_ids" not in columns.ids:
            continue
        groups = np.frombuffer(columns.group_of, np.uint16)
        for number, kind in enumerate(columns.groups):
            for feature in ("positive_ids", "unreachable_ids"):
                count = int(columns.ids[feature].lengths[groups == number].sum())
                yield dataset.row(f"{split}/{feature} with {kind}", count)


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"
