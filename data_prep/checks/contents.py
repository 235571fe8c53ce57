"""Checks of what is in the records: texts, scores, images, and the hash of everything."""

from collections.abc import Iterator

from data_prep.checks.prepared import Prepared
from data_prep.checks.rows import DIFFERS, NOTED, OK, Row


def texts(dataset: Prepared) -> Iterator[Row]:
    """No text is empty; texts with the mark of lost bytes are counted."""
    for split, columns in dataset.splits.items():
        for name in columns.texts:
            yield dataset.row(f"{split}/{name} empty", columns.empty[name], 0)
            if columns.replaced[name]:
                yield dataset.row(f"{split}/{name} with U+FFFD", columns.replaced[name])


def scores(dataset: Prepared) -> Iterator[Row]:
    """Scores are numbers, and in the range of their scale."""
    for split, columns in dataset.splits.items():
        for kind, found in sorted(columns.groups.items()):
            if not found.finite and not found.not_finite:
                continue  # rows without scores
            yield dataset.row(f"{split}/scores not finite with {kind}", found.not_finite, 0)
            if found.finite:
                yield dataset.row(f"{split}/lowest score with {kind}", found.low)
                yield dataset.row(f"{split}/highest score with {kind}", found.high)
                mean = round(found.total / found.finite, 3)
                name = f"{split}/mean score with {kind}"
                # That of a part is another one.
                yield Row(name, mean, None, NOTED) if dataset.is_part else dataset.row(name, mean)


def images(dataset: Prepared) -> Iterator[Row]:
    """Every image can be decoded to its end and is 8-bit RGB or gray."""
    for split, walked in dataset.walked.items():
        if not walked.columns.images:
            continue
        reasons = ", ".join(
            f"{reason} {count:,} (first: image {walked.first_bad[reason]})"
            for reason, count in walked.bad_images.most_common()
        )
        if not dataset.checked_images:
            reasons = "not decoded, as asked"
            yield dataset.row(f"{split}/images unusable", "-", note=reasons)
            continue
        yield dataset.row(f"{split}/images unusable", walked.bad_images.total(), 0, note=reasons)


def hashes(dataset: Prepared) -> Iterator[Row]:
    """What is read hashes to what was written."""
    stored = dataset.metadata.get("split_hashes", {})
    for split, walked in dataset.walked.items():
        found, expected = walked.hash, stored.get(split)
        note = "" if expected else "built before hashes were kept; delete it and build it again"
        yield Row(f"{split}/hash", found, expected, OK if found == expected else DIFFERS, note)
