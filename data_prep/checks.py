"""Checks of prepared datasets, for `python -m data_prep.validate`.

Every split is read once. Texts and images are kept as 8 bytes of their BLAKE2b hash, ids as 8
bytes: 3.3 million pairs of an image and a caption take about 130 MB.
"""

import array
import collections
import concurrent.futures
import dataclasses
import fnmatch
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.image_check import checked_image
from data_prep.building.record_counts import listing
from data_prep.building.split_hash import SplitHash
from data_prep.same_text import content_hash
from xmodal.core.errors import BadImageError
from xmodal.core.text_table import align_columns

DIFFERS = "differs"
_MEANINGS = {
    "ok": "as expected",
    "known": "a known fault of the published data, as large as published",
    "part": "less than was published: the dataset is described as a part",
    "noted": "nothing is expected",
    DIFFERS: "not as expected",
}
# Features that distinguish kinds of rows: rows and scores are counted for each combination.
_CATEGORIES = ("rating", "direction", "method", "year", "dataset", "fold")
# Texts that identify the picture.
_PICTURES = ("image", "picture", "url")
# An odd 64-bit multiplier: combines two hashes so that their order matters.
_MIX = np.uint64(0x9E3779B97F4A7C15)
# Images per round of the decoding threads: about 13 MB if an image has 100 kB.
_BLOCK = 128


@dataclasses.dataclass(frozen=True)
class FigureRow:
    """One figure of a prepared dataset.

    Attributes:
      name: split and quantity: `test/records`.
      found: the figure.
      expected: the expected figure, as a number or in words; None if nothing is expected.
      verdict: `ok`, `known`, `part`, `noted` or `differs`.
      note: a remark for the reader.
    """

    name: str
    found: schema.Value
    expected: schema.Value | None
    verdict: str
    note: str = ""


def check(builder: Any, *, check_images: bool = True) -> list[FigureRow]:
    """Returns the figures of a prepared dataset, each with the expected one and a verdict.

    Args:
      builder: builder of the dataset.
      check_images: whether images are decoded. Decoding 3.3 million takes an hour or two.
    """
    metadata = dict(builder.info.metadata or {})
    lost = (*metadata.get("left_out", {}).values(), *metadata.get("parts", {}).values())
    is_part = not metadata.get("complete", True) or any(lost)
    figures = builder.published_figures(builder.builder_config.name)
    rows, splits = [], dict[str, _Contents]()
    for split in builder.info.splits:
        contents = _read_split(builder, split, check_images)
        found = [
            *_records(contents, builder.info.splits[split].num_examples, metadata, split),
            *_kinds(contents),
            *_identity(split, contents, builder.UNIQUE_IDS, splits),
        ]
        for name, value, expected, note in found:
            figure = _lookup(figures, f"{split}/{name}", expected)
            rows.append(judge(f"{split}/{name}", value, figure, part=is_part, note=note))
        splits[split] = contents
    return rows


_Found = tuple[str, schema.Value, schema.Figure | None, str]
"""Name of a row in its split, its figure, the expected one if none is published, and a note."""


def _lookup(
    figures: Mapping[str, schema.Figure], name: str, default: schema.Figure | None
) -> schema.Figure | None:
    """The figure of the row `name`: by name, or else by the first pattern it matches."""
    matching = (value for key, value in figures.items() if fnmatch.fnmatchcase(name, key))
    return figures[name] if name in figures else next(matching, default)


def judge(
    name: str, found: schema.Value, figure: schema.Figure | None, *, part: bool, note: str = ""
) -> FigureRow:
    """Compares a figure with the expected one.

    Args:
      name: name of the row.
      found: the figure.
      figure: the expected one; None if nothing is expected.
      part: whether the dataset's description says that it is only a part of the published one, so
        that less than expected is not a difference.
      note: shown beside the row, unless the expected figure has a note of its own.
    """
    verdict = "noted" if figure is None else "ok"
    expected: Any = figure
    if isinstance(figure, schema.Known):
        expected, verdict, note = figure.value, "known", figure.note
    low, high = expected if isinstance(expected, tuple) else (expected, expected)
    shown = f"{low:g} to {high:g}" if isinstance(expected, tuple) else expected
    if isinstance(found, str) or isinstance(low, str) or low is None or high is None:
        is_less, is_more = False, low is not None and found != low
    else:
        is_less, is_more = found < low, found > high
    if is_less or is_more:
        verdict = "part" if part and is_less else DIFFERS
    return FigureRow(name, found, shown, verdict, note)


def table(rows: Sequence[FigureRow]) -> str:
    """Returns the rows in columns, and a line that counts the verdicts."""
    cells = [
        ["", "found", "expected", "verdict", ""],
        *([row.name, _text(row.found), _text(row.expected), row.verdict, row.note] for row in rows),
    ]
    counts = collections.Counter(row.verdict for row in rows)
    summary = (
        f"{counts[each]} {each} ({text})" for each, text in _MEANINGS.items() if counts[each]
    )
    return f"{align_columns(cells, right={1, 2})}\n\n{'; '.join(summary)}"


def _text(value: schema.Value | None) -> str:
    if isinstance(value, str):  # Hashes have 64 digits; JSON has all of them.
        return value if len(value) <= 17 else value[:16] + "…"
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


class _Contents:
    """One split, record by record.

    Attributes:
      records: number of records.
      values: ids by feature (`..._id`, `..._ids`), array of int64 [V]; and hashes of texts, images
        and stored image features by feature, array of uint64 [V].
      lengths: feature -> number of its values in each record, array of int32 [N].
      hashed: the features that are hashed; `images`: those that are images.
      kinds: values of `_CATEGORIES` as `name=value` -> number.
      kind_of: number of the kind of each record, array of uint16 [N].
      scores: score of each record, array of float64 [N]; NaN for none.
      positives: number of records in which each relation holds, int64 [R], or 0.
      faults: reason -> number of images that cannot be used; None if none was decoded.
      hash: hash of the records.
      unreadable: why the pass stopped before the end; "" if it did not.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.records = 0
        self._categories = [name for name in _CATEGORIES if name in features]
        ids = [name for name in features if name.endswith(("_id", "_ids"))]
        self.images = [
            name
            for name, feature in features.items()
            if name == "image" or isinstance(feature, tfds.features.Image)
        ]
        texts = [
            name
            for name, feature in features.items()
            if isinstance(getattr(feature, "feature", feature), tfds.features.Text)
        ]
        self.hashed = [name for name in (*texts, *self.images) if name not in _CATEGORIES]
        self.values = {name: array.array("q") for name in ids}
        self.values |= {name: array.array("Q") for name in self.hashed}
        self.lengths = {name: array.array("i") for name in self.values}
        self.kinds: dict[str, int] = {}
        self.kind_of, self.scores = array.array("H"), array.array("d")
        self.positives: Any = 0
        self.faults: collections.Counter[str] | None = None
        self.hash = self.unreadable = ""

    def add(self, example: Mapping[str, Any]) -> None:
        """Adds a record as it is stored, its image still encoded."""
        self.records += 1
        for name, values in self.values.items():
            found = example[name]
            if name in self.images:
                found = found if isinstance(found, bytes) else found.tobytes()
            elif isinstance(found, np.ndarray):
                found = found.tolist()
            items: list[Any] = found if isinstance(found, list) else [found]
            values.extend(list(map(content_hash, items)) if name in self.hashed else items)
            self.lengths[name].append(len(items))
        if self._categories:
            parts = {name: example[name] for name in self._categories}
            kind = ", ".join(
                f"{name}={value.decode() if isinstance(value, bytes) else value}"
                for name, value in parts.items()
            )
            self.kind_of.append(self.kinds.setdefault(kind, len(self.kinds)))
            self.scores.append(example.get("score", np.nan))
        if "relations" in example:
            self.positives = self.positives + (np.asarray(example["relations"]) == 1)

    def of_kinds(self, values: Sequence[float]) -> dict[str, np.ndarray]:
        """Kind -> the values [N] of its records."""
        kind_of = np.asarray(self.kind_of)
        return {kind: np.asarray(values)[kind_of == n] for kind, n in sorted(self.kinds.items())}

    def hashes(self) -> dict[str, np.ndarray]:
        """Hashes of texts, images, and pictures with their captions, uint64 [V], by name."""
        hashes = {name: np.asarray(self.values[name]) for name in self.hashed}
        for name in _PICTURES if "captions" in hashes else ():
            if name in hashes:
                pictures = np.repeat(hashes[name], self.lengths["captions"])
                hashes[f"{name} and caption"] = pictures * _MIX ^ hashes["captions"]
        return hashes


def _read_split(builder: tfds.core.DatasetBuilder, split: str, check_images: bool) -> _Contents:
    features = dict(builder.info.features.items())
    contents, split_hash = _Contents(features), SplitHash(features)
    faults = contents.faults = collections.Counter() if contents.images and check_images else None
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            for block in _blocks(builder, split):
                for example in block:
                    contents.add(example)
                    split_hash.add(example)
                if faults is not None:
                    for name in contents.images:
                        faults.update(threads.map(_fault, [each[name] for each in block]))
    except Exception as error:  # Damaged shards make readers raise all kinds of errors.
        read = contents.records
        contents.unreadable = f"after {read:,} records: {type(error).__name__}: {error}"
    contents.hash = split_hash.hexdigest()
    return contents


def _blocks(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[list[dict[str, Any]]]:
    features = builder.info.features.items()
    encoded = [name for name, feature in features if isinstance(feature, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in encoded} or None
    source = builder.as_data_source(split, decoders=decoders)
    for start in range(0, len(source), _BLOCK):
        yield source.__getitems__(list(range(start, min(start + _BLOCK, len(source)))))


def _fault(image: bytes | np.ndarray) -> str:
    """Why an image cannot be used; "" if it can."""
    if isinstance(image, np.ndarray):
        return "" if np.isfinite(image).all() else "not finite"
    try:
        converted = checked_image(image).converted
    except BadImageError as error:
        return error.reason
    return f"not converted: {converted}" if converted else ""


def _records(
    contents: _Contents, promised: int, metadata: Mapping[str, Any], split: str
) -> Iterator[_Found]:
    """The size of a split, its hash, and what is wrong with single records."""
    reasons = metadata.get("left_out", {}).get(split, {})
    lost = sum(reasons.values())
    yield "records read", contents.records, promised, contents.unreadable
    yield "records", contents.records, None, ""
    yield "records left out", lost, None, listing(reasons)
    yield "records with those left out", contents.records + lost, None, ""
    if lengths := contents.lengths.get("captions"):
        low, high = min(lengths), max(lengths)
        yield "captions", sum(lengths), None, ""
        yield "captions of an image", f"{low}" if low == high else f"{low} to {high}", None, ""
    if contents.faults is not None:
        faults = {fault: number for fault, number in contents.faults.items() if fault}
        yield "images unusable", sum(faults.values()), 0, listing(faults)
    yield "hash", contents.hash, metadata.get("split_hashes", {}).get(split, "none"), ""
    if np.ndim(contents.positives):
        for name, count in zip(metadata["relations"], contents.positives.tolist(), strict=True):
            yield f"relation {name}", count, None, ""


def _kinds(contents: _Contents) -> Iterator[_Found]:
    """The rows, positives and scores of each kind."""
    for name in ("positive_ids", "unreachable_ids"):
        if name in contents.lengths:
            for kind, lengths in contents.of_kinds(contents.lengths[name]).items():
                yield f"{name} with {kind}", int(lengths.sum()), None, ""
    for kind, scores in contents.of_kinds(contents.scores).items():
        yield f"rows with {kind}", len(scores), None, ""
        scores = scores[~np.isnan(scores)]
        if len(scores):
            yield f"lowest score with {kind}", float(scores.min()), None, ""
            yield f"highest score with {kind}", float(scores.max()), None, ""


def _identity(
    own: str, contents: _Contents, unique: Iterable[str], splits: Mapping[str, _Contents]
) -> Iterator[_Found]:
    """Ids, texts, images and pairs that are repeated in a split, or are also in an earlier one."""
    ids = {name: np.asarray(contents.values[name]) for name in unique if name in contents.values}
    for name, values in {**ids, **contents.hashes()}.items():
        expected = 0 if name in ids else None
        yield f"{name} repeated", _repeats(values), expected, ""
        for split, earlier in splits.items():
            if own.startswith(split):  # `test_deduplicated` is a part of `test`, as is `testall`.
                continue
            others = earlier.values[name] if name in ids else earlier.hashes()[name]
            yield f"{name} also in {split}", int(np.isin(values, others).sum()), expected, ""
    if "left_id" in contents.values:
        lefts, rights = (contents.of_kinds(contents.values[n]) for n in ("left_id", "right_id"))
        for kind, left in lefts.items():
            right = rights[kind]
            # Ids are int32: the two ids of a pair fit into 64 bits.
            twice = _repeats(left << 32 | right)
            yield f"pairs repeated with {kind}", twice, 0, ""
            if "rating=sts" in kind or "rating=sis" in kind:
                turned = _repeats(np.minimum(left, right) << 32 | np.maximum(left, right)) - twice
                yield f"pairs in both orders with {kind}", turned, None, ""


def _repeats(values: np.ndarray) -> int:
    """Number of repeated values in int64 or uint64 [V]."""
    return len(values) - len(np.unique(values))
