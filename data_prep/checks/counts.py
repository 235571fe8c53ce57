"""Checks of the size and contents of splits: records, labels, texts, scores, images, hashes."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.figure_rows import DIFFERS, NOTED, OK, FigureRow
from data_prep.checks.prepared_dataset import Prepared


def readable(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that every record listed in the description can be read."""
    for split, contents in dataset.splits.items():
        promised = dataset.builder.info.splits[split].num_examples
        note = contents.unreadable
        yield dataset.row(f"{split}/records read", contents.records, promised, note=note)


def records(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that the numbers of records and captions match the published ones."""
    for split, contents in dataset.splits.items():
        yield dataset.row(f"{split}/records", contents.records)
        left_out = dataset.metadata.get("left_out", {}).get(split, {})
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(left_out.items()))
        yield dataset.row(f"{split}/records left out", sum(left_out.values()), note=reasons)
        listed = f"{split}/records with those left out"
        if left_out or listed in dataset.figures:
            published = dataset.figures.get(f"{split}/records")
            yield dataset.row(listed, contents.records + sum(left_out.values()), published)
        if "captions" in contents.texts and contents.records:
            lengths = contents.texts["captions"].lengths
            yield dataset.row(f"{split}/captions", int(lengths.sum()))
            low, high = int(lengths.min()), int(lengths.max())
            span = f"{low}" if low == high else f"{low} to {high}"
            yield dataset.row(f"{split}/captions of an image", span)


def kinds(dataset: Prepared) -> Iterator[FigureRow]:
    """Counts the rows of each kind (rating, direction, method, year, ...)."""
    for split, contents in dataset.splits.items():
        for kind, scores in sorted(contents.groups.items()):
            yield dataset.row(f"{split}/rows with {kind}", scores.rows)


def positives(dataset: Prepared) -> Iterator[FigureRow]:
    """Counts the positives of queries, by direction."""
    for split, contents in dataset.splits.items():
        if "positive_ids" not in contents.ids:
            continue
        groups = np.frombuffer(contents.group_of, np.uint16)
        for number, kind in enumerate(contents.groups):
            for feature in ("positive_ids", "unreachable_ids"):
                count = int(contents.ids[feature].lengths[groups == number].sum())
                yield dataset.row(f"{split}/{feature} with {kind}", count)


def relations(dataset: Prepared) -> Iterator[FigureRow]:
    """Counts the records in which each relation holds, and labels other than 0 and 1."""
    for split, contents in dataset.splits.items():
        if contents.positives is None:
            continue
        names = dataset.metadata.get("relations", range(len(contents.positives)))
        for name, count in zip(names, contents.positives.tolist(), strict=True):
            yield dataset.row(f"{split}/relation {name}", count)
        yield dataset.row(f"{split}/relations other than 0 and 1", contents.odd_relations, 0)


def texts(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that no text is empty; counts texts with the replacement character (U+FFFD)."""
    for split, contents in dataset.splits.items():
        for name in contents.texts:
            yield dataset.row(f"{split}/{name} empty", contents.empty[name], 0)
            if contents.replaced[name]:
                yield dataset.row(f"{split}/{name} with U+FFFD", contents.replaced[name])


def scores(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that scores are numbers within their scale."""
    for split, contents in dataset.splits.items():
        for kind, found in sorted(contents.groups.items()):
            if not found.finite and not found.not_finite:
                continue  # rows without scores
            yield dataset.row(f"{split}/scores not finite with {kind}", found.not_finite, 0)
            if found.finite:
                yield dataset.row(f"{split}/lowest score with {kind}", found.low)
                yield dataset.row(f"{split}/highest score with {kind}", found.high)
                mean = round(found.total / found.finite, 3)
                name = f"{split}/mean score with {kind}"
                # A part of the data may have a different mean.
                yield (
                    FigureRow(name, mean, None, NOTED)
                    if dataset.is_part
                    else dataset.row(name, mean)
                )


def images(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that every image can be decoded completely and is 8-bit RGB or gray."""
    for split, contents in dataset.splits.items():
        name = f"{split}/images unusable"
        if contents.images and not dataset.checked_images:
            yield dataset.row(name, "-", note="not decoded, as asked")
        elif contents.images:
            reasons = ", ".join(
                f"{reason} {count:,} (first: image {contents.first_bad[reason]})"
                for reason, count in contents.bad_images.most_common()
            )
            yield dataset.row(name, contents.bad_images.total(), 0, note=reasons)


def hashes(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that the records read have the hash of the records written."""
    stored = dataset.metadata.get("split_hashes", {})
    for split, contents in dataset.splits.items():
        found, expected = contents.hash, stored.get(split)
        note = "" if expected else "built before hashes were stored; delete it and build it again"
        yield FigureRow(
            f"{split}/hash", found, expected, OK if found == expected else DIFFERS, note
        )
