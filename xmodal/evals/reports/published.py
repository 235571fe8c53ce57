"""Numbers from papers, to print beside ours: those of configs/results/*.toml."""

import functools
import importlib
import itertools
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from xmodal.evals.labels.definitions import definitions_of
from xmodal.evals.reports.results import RSUM

# Benchmark -> `Benchmark.label_hash` of the released labels of the MS-COCO 5K test split. The hash
# covers the ids of all items, the positives and the ratings, so no other split, subset or numbering
# has it: published numbers can be compared only on these labels.
PUBLISHED_LABELS: Mapping[str, str] = {
    name: each.published for name, each in definitions_of("coco_captions").items() if each.published
}
# File -> its tables whose rows reports print.
_PRINTED = {
    "cxc": (
        "table 2, MS-COCO labels", "table 2, CxC labels", "table 3", "table 4", "table 5",
        "VSE-infinity on CxC",
    ),
    "clip": ("5K",),
    "eccv_caption": ("example of the library", "README of naver-ai/pcme"),
}  # fmt: skip
Rows = dict[str, dict[str, float]]  # Model -> tag -> number.


def read_result_files(folder: pathlib.Path | None = None) -> dict[str, dict[str, Any]]:
    """Returns the content of FOLDER/*.toml by name, by default of `configs/results`."""
    places = importlib.import_module("configs").__path__  # Also a folder of one's own.
    folders = [folder] if folder else [pathlib.Path(each, "results") for each in places]
    paths = sorted(path for each in folders for path in each.glob("*.toml"))
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in paths}


_files = functools.cache(read_result_files)


def expand_columns(columns: str) -> list[str]:
    """Returns the tags of a table's columns; `a/{b,c}` stands for `a/b` and `a/c`."""
    tags = []
    for word in columns.split():
        parts = enumerate(re.split(r"[{}]", word))
        choices = [part.split(",") if i % 2 else [part] for i, part in parts]
        tags += ["".join(chosen) for chosen in itertools.product(*choices)]
    return tags


def _read(group: str, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """The rows of a table: the label of a system, and its numbers by tag."""
    (table,) = (each for each in _files()[group]["tables"] if each["name"] == name)
    for key, cells in table["published"].items():
        row: dict[str, float] = {}
        for tag, text in zip(expand_columns(table["columns"]), cells.split(), strict=True):
            value, _, deviation = text.partition("±")
            row |= {tag: float(value)} if value != "-" else {}
            row |= {f"{tag}_std": float(deviation)} if deviation else {}
        owner, _, system = key.rpartition("/")
        systems = _files()[owner or group].get("systems", {})
        yield systems.get(system, {}).get("label", system), row


@functools.cache
def published_numbers() -> dict[str, Rows]:
    """Returns benchmark -> model -> tag -> number: retrieval by direction and correlations."""
    found: dict[str, Rows] = {benchmark: {} for benchmark in PUBLISHED_LABELS}
    for group, names in _PRINTED.items():
        for label, row in itertools.chain(*(_read(group, name) for name in names)):
            label += " (open_clip)" * (group == "clip")
            for tag, number in row.items():
                found[tag.partition("/")[0]].setdefault(label, {})[tag] = number
    for benchmark, rows in found.items():
        recalls = [
            f"{benchmark}/{modality}/recall@{k}" for modality in ("i2t", "t2i") for k in (1, 5, 10)
        ]
        for row in rows.values():
            if set(recalls) <= set(row):
                row[f"{benchmark}/{RSUM}"] = sum(row[tag] for tag in recalls)
    return found


@functools.cache
def eccv_table_4() -> Rows:
    """Returns table 4 of the ECCV Caption paper, means of both directions: model -> tag -> number.

    Its column "1K R@1", where the first revision mixes galleries, is the mean of the directions
    within 1K, where they are published.
    """
    rows = dict(_read("eccv_caption", "table 4"))
    i2t, t2i = "coco1k/i2t/recall@1", "coco1k/t2i/recall@1"
    tables = (_read("eccv_caption", name) for name in _PRINTED["eccv_caption"])
    for label, row in itertools.chain(_read("vse_infinity", "1K"), *tables):
        if label in rows and {i2t, t2i} <= set(row):
            rows[label]["coco1k/mean/recall@1"] = round((row[i2t] + row[t2i]) / 2, 2)
    return rows


@functools.cache
def eccv_table_5() -> dict[tuple[str, str], float]:
    """Returns Kendall's tau-b of the metrics over 25 models, by pairs of tags in either order.

    The first tags of the pairs are in the order of the paper.
    """
    found = {}
    first = "coco1k/mean/recall@1"  # A row of the table, but not a column.
    for _, row in _read("eccv_caption", "table 5"):
        for other, tau in row.items():
            found[first, other] = found[other, first] = tau
        first = next(iter(row))
    return found
