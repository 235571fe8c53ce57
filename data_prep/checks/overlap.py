"""Checks of copies: texts, pictures and pairs of both that come again, in a split or in two."""

from collections.abc import Iterator

import numpy as np

from data_prep.checks.columns import Columns
from data_prep.checks.identity import repeats
from data_prep.checks.prepared import Prepared
from data_prep.checks.rows import Row

# Texts that say which picture it is.
_PICTURES = ("picture", "url")
# An odd number with bits everywhere: combines two hashes in such a way that their order matters.
_MIX = np.uint64(0x9E3779B97F4A7C15)


def copies(dataset: Prepared) -> Iterator[Row]:
    """What came before in the same split. Nothing is expected, unless the dataset knows better."""
    for split, columns in dataset.splits.items():
        for name, values in _contents(columns).items():
            yield dataset.row(f"{split}/{name} repeated", repeats(values))


def leaks(dataset: Prepared) -> Iterator[Row]:
    """What an earlier split has too.

    The same words may describe two pictures, but no picture should be in two splits.
    """
    for split, columns, earlier, earlier_columns in dataset.pairs_of_splits:
        others = _contents(earlier_columns)
        for name, values in _contents(columns).items():
            shared = int(np.isin(values, others.get(name, [])).sum())
            expected = 0 if name.startswith(("image", *_PICTURES)) else None
            yield dataset.row(f"{split}/{name} also in {earlier}", shared, expected)


def _contents(columns: Columns) -> dict[str, np.ndarray]:
    """Hashes of what can be copied, uint64 [V] each, by name."""
    contents = {name: column.values for name, column in columns.texts.items()}
    contents |= {name: column.values for name, column in columns.images.items()}
    captions = columns.texts.get("captions")
    for name in ("image", *_PICTURES):
        if name in contents and captions is not None:
            pictures = np.repeat(contents[name], captions.lengths)
            contents[f"{name} and caption"] = pictures * _MIX ^ captions.values
    return contents
