"""Checks of prepared datasets, for `python -m data_prep.validate`.

Every split is read once. Texts and images are kept as 8 bytes of their BLAKE2b hash, ids as 8
bytes: 3.3 million pairs of an image and a caption take about 130 MB.
"""

import array
import collections
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.record_counts import listing
from data_prep.building.split_hash import SplitHash
from data_prep.same_text import content_hash

# Features whose copies are counted, besides ids.
_CONTENTS = ("image", "picture", "captions")


class FigureRow(NamedTuple):
    """One figure of a prepared dataset.

    Attributes:
      name: split and quantity: `test/records`.
      found: the figure.
      expected: the expected figure; None if nothing is expected.
      note: a remark for the reader.
    """

    name: str
    found: int | str
    expected: int | str | None = None
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether the figure is not the expected one."""
        return self.expected not in (None, self.found)


def check(builder: Any) -> list[FigureRow]:
    """Returns the figures of a prepared dataset, each with the one from its build, if any."""
    metadata = dict(builder.info.metadata or {})
    features = dict(builder.info.features.items())
    images = [name for name, each in features.items() if isinstance(each, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in images} or None
    rows, earlier = list[FigureRow](), dict[str, dict[str, array.array]]()
    for split, info in builder.info.splits.items():
        values: dict[str, array.array] = collections.defaultdict(lambda: array.array("Q"))
        split_hash, records, unreadable = SplitHash(features), 0, ""
        try:
            for example in builder.as_data_source(split, decoders=decoders):
                records += 1
                split_hash.add(example)
                for name in example.keys() & {*_CONTENTS, *builder.UNIQUE_IDS}:
                    values[name].extend(_numbers(example[name]))
        except Exception as error:  # Damaged shards make readers raise all kinds of errors.
            unreadable = f"after {records:,} records: {type(error).__name__}: {error}"
        left_out = metadata.get("left_out", {}).get(split, {})
        lost, expected_hash = sum(left_out.values()), metadata.get("split_hashes", {}).get(split)
        rows += [
            FigureRow(f"{split}/records", records, info.num_examples, unreadable),
            FigureRow(f"{split}/records left out", lost, None, listing(left_out)),
            FigureRow(f"{split}/hash", split_hash.hexdigest(), expected_hash or "none"),
        ]
        for name in sorted(values):
            own, expected = np.asarray(values[name]), 0 if name in builder.UNIQUE_IDS else None
            repeated = len(own) - len(np.unique(own))
            rows.append(FigureRow(f"{split}/{name} repeated", repeated, expected))
            for other, theirs in earlier.items():
                if not split.startswith(other):  # `test_deduplicated` is a part of `test`.
                    shared = int(np.isin(own, theirs[name]).sum())
                    rows.append(FigureRow(f"{split}/{name} also in {other}", shared, expected))
        earlier[split] = values
    return rows


def _numbers(value: Any) -> list[int]:
    """Returns ids themselves, and the hashes of texts, an image, or its features."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return [content_hash(value.tobytes())]
    items = value.tolist() if isinstance(value, np.ndarray) else value
    items = items if isinstance(items, list) else [items]
    return [content_hash(each) if isinstance(each, bytes) else each for each in items]
