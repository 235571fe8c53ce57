"""Numbers from papers, to print beside ours: those of configs/results/*.toml."""

import functools
import importlib.util
import itertools
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from xmodal.evals.reports.results import RSUM

# Benchmark -> `Benchmark.label_hash` of the released labels of the MS-COCO 5K test split. The hash
# covers the ids of all items, the positives and the ratings, so no other split, subset or numbering
# has it: published numbers can be compared only on these labels.
PUBLISHED_LABELS: Mapping[str, str] = {
    "coco5k": "0dc52fa5a267b33f",
    "coco1k": "b9c6643427c4ee1a",
    "cxc": "1e710e4249e27423",
    "cxc_sits_only": "bfe9ed4c3051c55e",
    "eccv": "3658cf91e3323425",
    "pmrp": "092a5116ace59141",
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


@functools.cache
def _files() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("configs")
    folders = (spec.submodule_search_locations if spec else None) or ()
    paths = itertools.chain(*(sorted(pathlib.Path(f, "results").glob("*.toml")) for f in folders))
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in paths}


def _columns(table: Mapping[str, Any]) -> list[str]:
    """The tags of a table's columns; `a/{b,c}` stands for `a/b` and `a/c`."""
    tags = []
    for word in table["columns"].split():
        parts = enumerate(re.split(r"[{}]", word))
        choices = [part.split(",") if i % 2 else [part] for i, part in parts]
        tags += ["".join(chosen) for chosen in itertools.product(*choices)]
    return tags


def _read(group: str, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """The rows of a table: the key of a system with its file, and its numbers by tag."""
    (table,) = (each for each in _files()[group]["tables"] if each["name"] == name)
    for key, cells in table["published"].items():
        row: dict[str, float] = {}
        for tag, text in zip(_columns(table), cells.split(), strict=True):
            value, _, deviation = text.partition("±")
            row |= {tag: float(value)} if value != "-" else {}
            row |= {f"{tag}_std": float(deviation)} if deviation else {}
        yield key if "/" in key else f"{group}/{key}", row


def _label(system: str) -> str:
    group, key = system.split("/")
    return _files()[group].get("systems", {}).get(key, {}).get("label", key)


@functools.cache
def published_numbers() -> dict[str, Rows]:
    """Returns benchmark -> model -> tag -> number: retrieval by direction and correlations."""
    found: dict[str, Rows] = {benchmark: {} for benchmark in PUBLISHED_LABELS}
    for group, names in _PRINTED.items():
        for system, row in itertools.chain(*(_read(group, name) for name in names)):
            label = f"{_label(system)} (open_clip)" if group == "clip" else _label(system)
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
    rows = {_label(system): row for system, row in _read("eccv_caption", "table 4")}
    modalities = "coco1k/i2t/recall@1", "coco1k/t2i/recall@1"
    within = [*_read("vse_infinity", "1K")]
    for name in _PRINTED["eccv_caption"]:
        within += _read("eccv_caption", name)
    for system, row in within:
        if _label(system) in rows and set(modalities) <= set(row):
            mean = sum(row[modality] for modality in modalities) / 2
            rows[_label(system)]["coco1k/mean/recall@1"] = round(mean, 2)
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
