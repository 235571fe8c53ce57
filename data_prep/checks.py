"""Checks of prepared datasets, for `python -m data_prep.validate`.

Every split is read once. Texts and images are kept as 8 bytes of their BLAKE2b hash, ids as 8
bytes: 3.3 million pairs of an image and a caption take about 130 MB.
"""

import array
import collections
import concurrent.futures
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from data_prep.building.image_check import checked_image
from data_prep.building.record_counts import listing
from data_prep.building.split_hash import SplitHash
from data_prep.same_text import content_hash
from xmodal.core.errors import BadImageError
from xmodal.core.text_table import align_columns

# Features whose copies are counted, besides ids.
_CONTENTS = ("image", "picture", "captions")
# Images per round of the decoding threads: about 13 MB if an image has 100 kB.
_BLOCK = 128


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


def check(builder: Any, *, check_images: bool = True) -> list[FigureRow]:
    """Returns the figures of a prepared dataset, each with the one from its build, if any.

    Args:
      builder: builder of the dataset.
      check_images: whether images are decoded. Decoding 3.3 million takes an hour or two.
    """
    metadata = dict(builder.info.metadata or {})
    rows, earlier = list[FigureRow](), dict[str, dict[str, array.array]]()
    for split, info in builder.info.splits.items():
        values, faults = collections.defaultdict(lambda: array.array("Q")), collections.Counter()
        split_hash, records, unreadable = SplitHash(builder.info.features), 0, ""
        try:
            for block in _blocks(builder, split, check_images):
                for example, fault in block:
                    records += 1
                    split_hash.add(example)
                    faults.update([fault] if fault else [])
                    for name in example.keys() & {*_CONTENTS, *builder.UNIQUE_IDS}:
                        values[name].extend(_numbers(example[name]))
        except Exception as error:  # Damaged shards make readers raise all kinds of errors.
            unreadable = f"after {records:,} records: {type(error).__name__}: {error}"
        left_out = metadata.get("left_out", {}).get(split, {})
        expected_hash = metadata.get("split_hashes", {}).get(split, "none")
        rows += [
            FigureRow(f"{split}/records", records, info.num_examples, unreadable),
            FigureRow(f"{split}/records left out", sum(left_out.values()), None, listing(left_out)),
            FigureRow(f"{split}/images unusable", faults.total(), 0, listing(faults)),
            FigureRow(f"{split}/hash", split_hash.hexdigest(), expected_hash),
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


def table(rows: Sequence[FigureRow]) -> str:
    """Returns the rows in columns, and a line that counts the differences."""
    verdicts = {True: "differs", False: "ok"}
    cells = [["", "found", "expected", "", ""]]
    for row in rows:
        verdict = "" if row.expected is None else verdicts[row.differs]
        cells.append([row.name, _text(row.found), _text(row.expected), verdict, row.note])
    count = sum(row.differs for row in rows)
    return f"{align_columns(cells, right={1, 2})}\n\n{count or 'no'} figures differ"


def _text(value: int | str | None) -> str:
    if isinstance(value, str):  # Hashes have 64 digits; JSON has all of them.
        return value if len(value) <= 17 else value[:16] + "…"
    return "-" if value is None else f"{value:,}"


def _blocks(
    builder: Any, split: str, check_images: bool
) -> Iterator[Iterator[tuple[dict[str, Any], str]]]:
    """Yields blocks of records with the faults of their images; "" for none."""
    features = builder.info.features.items()
    images = [name for name, feature in features if isinstance(feature, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in images} or None
    source = builder.as_data_source(split, decoders=decoders)
    checked = images if check_images else []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for start in range(0, len(source), _BLOCK):
            block = source.__getitems__(range(start, min(start + _BLOCK, len(source))))
            encoded = ([example[name] for name in checked] for example in block)
            yield zip(block, threads.map(_fault, encoded), strict=True)


def _fault(images: Sequence[bytes]) -> str:
    """Why one of the images of a record cannot be used; "" if all can."""
    try:
        converted = [checked_image(image).converted for image in images]
    except BadImageError as error:
        return error.reason
    return "not converted" if any(converted) else ""


def _numbers(value: Any) -> list[int]:
    """Returns ids themselves, and the hashes of texts, an image, or its features."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return [content_hash(value.tobytes())]
    items = value.tolist() if isinstance(value, np.ndarray) else value
    items = items if isinstance(items, list) else [items]
    return [content_hash(each) if isinstance(each, bytes) else each for each in items]
