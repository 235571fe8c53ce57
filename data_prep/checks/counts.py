"""Checks of the size and contents of splits: records, labels, texts, scores, images, hashes."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.figure_rows import DIFFERS, OK, FigureRow
from data_prep.checks.prepared_dataset import Prepared


def records(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that all records can be read, and their number and that of captions."""
    for split, contents in dataset.splits.items():
        promised = dataset.builder.info.splits[split].num_examples
        note = contents.unreadable
        yield dataset.row(f"{split}/records read", contents.records, promised, note=note)
        yield dataset.row(f"{split}/records", contents.records)
        left_out = dataset.metadata.get("left_out", {}).get(split, {})
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(left_out.items()))
        yield dataset.row(f"{split}/records left out", sum(left_out.values()), note=reasons)
        listed = f"{split}/records with those left out"
        if left_out or listed in dataset.figures:
            published = dataset.figures.get(f"{split}/records")
            yield dataset.row(listed, contents.records + sum(left_out.values()), published)
        if contents.records and "captions" in contents.hashes:
            lengths = contents.hashes["captions"].lengths
            yield dataset.row(f"{split}/captions", int(lengths.sum()))
            low, high = int(lengths.min()), int(lengths.max())
            span = f"{low}" if low == high else f"{low} to {high}"
            yield dataset.row(f"{split}/captions of an image", span)


def kinds(dataset: Prepared) -> Iterator[FigureRow]:
    """Counts the rows and positives of each kind, and checks that scores are within their scale."""
    for split, contents in dataset.splits.items():
        lengths = {
            name: contents.of_kinds(contents.ids[name].lengths)
            for name in ("positive_ids", "unreachable_ids")
            if name in contents.ids
        }
        for kind, scores in contents.of_kinds(np.frombuffer(contents.scores)).items():
            yield dataset.row(f"{split}/rows with {kind}", len(scores))
            for name, of_kind in lengths.items():
                yield dataset.row(f"{split}/{name} with {kind}", int(of_kind[kind].sum()))
            scores = scores[~np.isnan(scores)]
            if len(scores):
                yield dataset.row(f"{split}/lowest score with {kind}", float(scores.min()))
                yield dataset.row(f"{split}/highest score with {kind}", float(scores.max()))
                if not dataset.is_part:  # whose mean may be different
                    mean = round(float(scores.mean()), 3)
                    yield dataset.row(f"{split}/mean score with {kind}", mean)


def relations(dataset: Prepared) -> Iterator[FigureRow]:
    """Counts the records in which each relation holds."""
    for split, contents in dataset.splits.items():
        if contents.positives is not None:
            names = dataset.metadata.get("relations", range(len(contents.positives)))
            for name, count in zip(names, contents.positives.tolist(), strict=True):
                yield dataset.row(f"{split}/relation {name}", count)


def contents(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that no text is empty, that images can be decoded, and the hash of the records."""
    stored = dataset.metadata.get("split_hashes", {})
    for split, contents in dataset.splits.items():
        for name in contents.texts:
            yield dataset.row(f"{split}/{name} empty", contents.empty[name], 0)
        name = f"{split}/images unusable"
        if contents.images and not dataset.checked_images:
            yield dataset.row(name, "-", note="not decoded, as asked")
        elif contents.images:
            reasons = ", ".join(
                f"{reason} {len(ids):,} (first: image {ids[0]})"
                for reason, ids in contents.bad_images.items()
            )
            yield dataset.row(name, sum(map(len, contents.bad_images.values())), 0, note=reasons)
        found, expected = contents.hash, stored.get(split)
        verdict = OK if found == expected else DIFFERS
        yield FigureRow(f"{split}/hash", found, expected, verdict)
