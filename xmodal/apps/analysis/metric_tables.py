"""Metrics of several models: read from files, checked for their labels, and chosen."""

import collections
import fnmatch
import math
import re
from collections.abc import Mapping, Sequence

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import as_numbers, read_json, read_numbers
from xmodal.evals.reports.metrics import MEAN_SELECTED
from xmodal.evals.reports.published import eccv_table_5
from xmodal.evals.reports.results import name_labels

# Model -> metric tag -> number. A model without a tag, or with NaN, lacks the metric.
Models = Mapping[str, Mapping[str, float]]

_FACTS = "benchmarks.json"  # The facts of all benchmarks, in the folder of an evaluation.
_REMEDY = "use a JSON table of models, or `--output` folders of evaluations."
_MOST_METRICS = 12  # More columns than this are hard to read.
# Metrics that are compared of many.
_HEADLINES = ("*/???/recall@1", "*/i2t/map@r", "*/t2i/map@r", "*/spearman")
# Ends of tags that accompany a metric, and names of those that do not rank models.
_SUFFIXES = ("_low", "_high", "_std")
_COUNTS = ("queries", "skipped_queries", "tied_queries", "gallery", "pairs", "pairs_per_sample")
_BACKGROUND = (*_COUNTS, "step", *MEAN_SELECTED)


def load_models(paths: Sequence[str]) -> dict[str, dict[str, float]]:
    """Returns model -> tag -> number, NaN where undefined.

    Args:
      paths: folders of evaluations (with the `metrics.json` of one model, named after the folder)
        and JSON files of the form `{model: {tag: number}}`; null means undefined. A model may have
        several, such as a folder for each label set. Tags of metrics on labels of one's own contain
        the name of the labels, see `results.name_labels`.
    """
    models: dict[str, dict[str, float]] = {}
    for path in paths:
        place = epath.Path(path)
        if place.is_dir():
            # `.` and `..` are resolved to get a name; a link keeps its own.
            name = place.resolve().name if place.name in ("", "..") else place.name
            titles = {each: title for each, (title, _) in _facts_of(path).items()}
            numbers = read_numbers(place / "metrics.json", _REMEDY).items()
            parts = ((*tag.partition("/"), value) for tag, value in numbers)
            found = {name: {titles.get(a, a) + slash + b: value for a, slash, b, value in parts}}
        else:
            table = read_json(place, _REMEDY)
            found = {model: as_numbers(each) for model, each in table.items()}
        for name, row in found.items():
            known = models.setdefault(name, {})
            if any(known.get(tag, value) != value == value for tag, value in row.items()):
                raise UserError(f"Two models are called {name!r}, one in {path}: rename it.")
            known |= row
    return models


def _facts_of(path: str) -> dict[str, tuple[str, str]]:
    """Benchmark -> its name with that of its labels, and their hash."""
    place = epath.Path(path) / _FACTS
    facts = read_json(place, _REMEDY) if place.exists() else {}
    return {x: (name_labels(x, f.get("label_set", "")), f["label_hash"]) for x, f in facts.items()}


def check_labels(paths: Sequence[str], *, by_name: bool = False) -> dict[str, str]:
    """Returns the hash of every benchmark's labels; an error if they differ in two folders.

    Args:
      paths: folders of evaluations; other paths are ignored.
      by_name: whether labels may differ if their names do, as in `load_models`.
    """
    seen: dict[str, tuple[str, str]] = {}
    for path in paths:
        for name, (title, digits) in _facts_of(path).items():
            benchmark = title if by_name else name
            first, where = seen.setdefault(benchmark, (digits, path))
            if digits != first:
                raise UserError(
                    f"The labels of benchmark {benchmark} differ: {first} in {where} against "
                    f"{digits} in {path}; evaluate both models with the same "
                    "annotations and split, and on the same items."
                )
    return {benchmark: digits for benchmark, (digits, _) in seen.items()}


def choose_metrics(
    models: Models, metrics: Sequence[str] | None = None, *, at_least: int = 2, paper: bool = True
) -> tuple[str, ...]:
    """Returns the tags to compare.

    Args:
      models: model -> tag -> number.
      metrics: requested tags; `*` in one stands for any characters, except in counts, ends of
        intervals and numbers about training. None takes all other tags that two or more models
        have; of more than twelve R@1 of every direction, mAP@R and correlations, if there are any.
      at_least: smallest number of tags.
      paper: whether the usual metrics of MS-COCO are the means in table 5 of the ECCV Caption
        paper instead.
    """
    known = collections.Counter(
        tag for row in models.values() for tag, value in row.items() if not math.isnan(value)
    )
    everything = dict.fromkeys(tag for row in models.values() for tag in row)
    ranking = [tag for tag in everything if not tag.endswith(_SUFFIXES)]
    ranking = [tag for tag in ranking if tag.split("/")[-1] not in _BACKGROUND]
    if metrics is None:
        chosen = [tag for tag in ranking if known[tag] > 1]
        if len(chosen) > _MOST_METRICS:
            rows = [*dict.fromkeys(a for a, _ in eccv_table_5())] if paper else []
            # The same metrics on labels of one's own follow those of the paper.
            printed = [x for row in rows for x in chosen if re.sub(r" \(.*?\)/", "/", x) == row]
            benchmarks = {tag.split("/")[0] for tag in printed}
            others = [tag for tag in chosen if tag.split("/")[0] not in benchmarks]
            heads = [tag for tag in others if any(fnmatch.fnmatch(tag, x) for x in _HEADLINES)]
            chosen = [*printed, *heads] or chosen
    else:
        found = [fnmatch.filter(ranking if "*" in each else everything, each) for each in metrics]
        chosen = list(dict.fromkeys(tag for tags in found for tag in tags))
        if unknown := [each for each, tags in zip(metrics, found, strict=True) if not tags]:
            raise UserError(f"No model has the metric(s) {unknown}; known: {ranking}.")
    if len(chosen) < at_least:
        raise UserError(
            f"Name {at_least} or more metrics that several models have, got {chosen}; known: "
            f"{ranking}."
        )
    return tuple(chosen)
