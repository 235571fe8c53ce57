"""Checks of identity: ids, references between datasets, copies, leaks, and pairs of items."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.figure_rows import NOTED, FigureRow
from data_prep.checks.prepared_dataset import Prepared
from data_prep.checks.split_contents import SplitContents
from data_prep.published_figures import Unknown

# Texts that identify the picture.
_PICTURES = ("picture", "url")
# An odd 64-bit multiplier: combines two hashes so that their order matters.
_MIX = np.uint64(0x9E3779B97F4A7C15)
# Ids are int32: the two ids of a pair fit into 64 bits.
_SHIFT = 32


def ids(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that no image and no caption is twice in a split or in two splits."""
    for split, contents in dataset.splits.items():
        for name in dataset.builder.UNIQUE_IDS:
            if name in contents.ids:
                values = contents.ids[name].values
                yield dataset.row(f"{split}/{name} repeated", _repeats(values), 0)
                for earlier, others in dataset.before(split):
                    shared = int(np.isin(values, others.ids[name].values).sum())
                    yield dataset.row(f"{split}/{name} also in {earlier}", shared, 0)


def joins(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that ids of items in another dataset are in the same split there."""
    if not any(contents.references for contents in dataset.splits.values()):
        return
    joined = dataset.joined()
    for split, contents in dataset.splits.items():
        for feature, column in contents.references.items():
            name, wanted = f"{split}/{feature} not found", np.unique(column.values)
            if joined is None:
                names = " or ".join(dataset.builder.REFERS_TO) or "any dataset"
                note = f"{len(wanted):,} different ids; not looked up, {names} is not prepared"
                yield dataset.row(f"{name} (not checked)", "-", Unknown(note))
                continue
            lost = int(np.isin(wanted, joined.ids(feature, split), invert=True).sum())
            note = f"of {len(wanted):,} in {joined.name}"
            if lost and joined.is_part:
                note += ", which is a part of the published data"
                yield FigureRow(name, lost, None, NOTED, note)
            else:
                yield dataset.row(name, lost, 0, note=note)


def copies(dataset: Prepared) -> Iterator[FigureRow]:
    """Counts texts and images that are repeated in a split, or are also in an earlier split.

    Two pictures may have the same caption, but no picture should be in two splits.
    """
    for split, contents in dataset.splits.items():
        for name, values in _contents(contents).items():
            yield dataset.row(f"{split}/{name} repeated", _repeats(values))
            for earlier, others in dataset.before(split):
                shared = int(np.isin(values, _contents(others).get(name, [])).sum())
                expected = 0 if name.startswith(("image", *_PICTURES)) else None
                yield dataset.row(f"{split}/{name} also in {earlier}", shared, expected)


def pairs(dataset: Prepared) -> Iterator[FigureRow]:
    """Checks that no pair is rated twice in the same order by the same method."""
    for split, contents in dataset.splits.items():
        for kind, (left, right) in _pairs(contents).items():
            twice = _repeats(left << _SHIFT | right)
            yield dataset.row(f"{split}/pairs repeated with {kind}", twice, 0)
            if "rating=sts" in kind or "rating=sis" in kind:
                low, high = np.minimum(left, right), np.maximum(left, right)
                turned = _repeats(low << _SHIFT | high) - twice
                yield dataset.row(f"{split}/pairs in both orders with {kind}", turned)
                same = int((left == right).sum())
                yield dataset.row(f"{split}/pairs of an item with itself with {kind}", same, 0)


def _repeats(values: np.ndarray) -> int:
    """Number of repeated values in int64 or uint64 [V]."""
    return len(values) - len(np.unique(values))


def _contents(contents: SplitContents) -> dict[str, np.ndarray]:
    """Hashes of texts and images, and of pictures with their captions, uint64 [V] each, by name."""
    hashes = {name: column.values for name, column in contents.hashes.items()}
    if captions := contents.hashes.get("captions"):
        for name in {"image", *_PICTURES} & hashes.keys():
            pictures = np.repeat(hashes[name], captions.lengths)
            hashes[f"{name} and caption"] = pictures * _MIX ^ captions.values
    return hashes


def _pairs(contents: SplitContents) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Kind of rows -> ids of the left and the right side, int64 [P] each."""
    if "left_id" not in contents.ids:
        return {}
    left, right = (contents.of_kinds(contents.ids[name].values) for name in ("left_id", "right_id"))
    return {kind: (left[kind], right[kind]) for kind in left}
