"""The evaluation of a model: results, report and files, which are read again for comparisons.

`ranks.npz` has the results by query, one array per key, readable with `numpy.load` alone.
Directions have `<benchmark>/<direction>/query_ids`, `/clusters`, `/values/<metric>` and, if known,
`/rank` and `/tied`; correlations have `<benchmark>/<rating>/samples`, `/images` and `/influence`;
`header` is a JSON string with everything that is not an array. Results without benchmarks have
`<name>/repeats/<tag>`.
"""

import dataclasses
import functools
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.charts import Chart
from xmodal.core.errors import UserError
from xmodal.core.files import FINAL, format_csv, format_json, write_files
from xmodal.core.page import Group, Page
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.labels.split import different_records
from xmodal.evals.reports.paired_differences import Differences, compare, have_same_labels
from xmodal.evals.reports.queries import QUERIES, pack_queries
from xmodal.evals.reports.report import format_report
from xmodal.evals.reports.report_charts import make_page
from xmodal.evals.reports.results import (
    CorrelationResult,
    DirectionResult,
    Provenance,
    Rescored,
    Result,
    evaluator_tag,
)
from xmodal.evals.reports.summary import name_values, summarize

# Files in the folder of an evaluation.
EXAMPLES = "examples.html"
REPORT = "report.html"
RANKS = "ranks.npz"
_COMPARISON = ("comparison.json", "comparison.md")
_FORMAT = {"format": "xmodal ranks", "version": 3}
_ARRAY = "array"  # Marks an array in the header, with its name.
# Name of the evaluator of an evaluation that stands alone, as of own functions.
SINGLE = "."

Points = Sequence[tuple[float, float]]
Drawn = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All results of one model on the labels of one evaluator; made by `evaluate_source`.

    One that `load_ranks` reads has the name, the results that can be compared, and the records.

    Attributes:
      name: name of the model's row in the tables.
      results: one per benchmark, or the numbers of an evaluator without benchmarks.
      similarity: similarity that ranked the items; "none" without embeddings, or "scores" or
        "rankings" if those were given.
      provenance: provenance of the labels.
      samples: samples of every bootstrap.
      seed: seed of every bootstrap.
      evaluator: its name in `config.evals`; "" for a source from files.
      trained_on: hash of the records of the model's training data, by name, if known.
      page: example queries, see `examples.make_example_page`.
      charts: charts of the evaluator.
      similarities: benchmark/direction -> scores of random positives and of random other pairs.
      curves: title -> points (step, value) of the training of a run.
      groups: pictures for the report's page.
      place: the folder that it was read from; "" otherwise.
    """

    name: str
    results: Sequence[Result]
    similarity: str
    provenance: Provenance
    samples: int = 1000
    seed: int = 0
    evaluator: str = ""
    trained_on: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: Page | None = None
    charts: Sequence[Chart] = ()
    similarities: Mapping[str, Drawn] = dataclasses.field(default_factory=dict, repr=False)
    curves: Mapping[str, Points] = dataclasses.field(default_factory=dict, repr=False)
    groups: Sequence[Group] = ()
    place: str = ""

    @property
    def benchmarks(self) -> list[Result]:
        """The results that are benchmarks."""
        return [each for each in self.results if not each.metrics]

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """Benchmark/direction/metric -> number, with 95 % intervals; see `summary.summarize`."""
        return summarize(self.results, intervals=True, samples=self.samples, seed=self.seed)

    @functools.cached_property
    def chance(self) -> dict[str, float]:
        """The values of a random order or a guess, by tag."""
        found: dict[str, float] = {}
        for each in self.results:
            found |= each.chance
            found |= name_values(each.name, {x: y.chance for x, y in each.directions.items()})
            found |= {f"{each.name}/{name}/spearman": 0.0 for name in each.correlations}
        return found

    @property
    def tagged(self) -> dict[str, float]:
        """`metrics` with the evaluator's name in front of every tag, see `evaluator_tag`."""
        return {evaluator_tag(self.evaluator, tag): x for tag, x in self.metrics.items()}

    @property
    def report_page(self) -> Page:
        """The page of `report.html`: charts, and the folded tables."""
        return make_page(self, self.report())

    def report(self, format: str = "markdown") -> str:
        """Returns the tables in "markdown" or "latex", see `report.format_report`."""
        return format_report(self, format)

    def __repr__(self) -> str:
        """Returns the report: consoles and notebooks show it in place of all ranks."""
        return self.report()

    _repr_markdown_ = __repr__

    @property
    def comparable(self) -> list[Result]:
        """The results with values of single queries or samples, which are stored and compared."""
        return [each for each in self.results if each.repeats or not each.metrics]

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of the labels of every result that can be compared, by name."""
        return {each.name: each.label_hash for each in self.comparable}

    def compare(self, other: "Evaluation | epath.PathLike") -> Differences:
        """Returns the paired differences from another model on the same labels, by tag.

        `other` is its evaluation, or its run, whose evaluation on these labels is found, or the
        folder of an evaluation or `ranks.npz` in it. The result prints as a table.
        """
        if not isinstance(other, Evaluation):
            other = find_ranks(other, self.evaluator, self.hashes, self.provenance.records)
        return compare(self, other)

    def save(self, folder: epath.PathLike, *, comparison: Differences | None = None) -> None:
        """Writes `ranks.npz`, `benchmarks.json`, `report.md`, `metrics.csv` and `metrics.json`,
        last.

        A page of examples is written to `examples.html`, with `queries.json`, what `compare`
        returned to `comparison.json` and `comparison.md`; otherwise, those of an earlier evaluation
        are removed. `report.html` has charts and the folded tables of the report, `report.tex` its
        tables in LaTeX, both with the comparison. Everything is computed before the first file is
        written, see `files.write_files`.
        """
        text, page, tables = self.report(), "", self.report("latex")
        facts = {each.name: self._describe(each) for each in self.results}
        contents: dict[str, str | bytes] = {
            RANKS: pack_ranks(self),
            "benchmarks.json": format_json(facts),
            "report.md": text,
        }
        if self.page is not None:
            contents[EXAMPLES] = self.page.to_html()
            contents[QUERIES] = pack_queries(self.page)
            page += f"\n[Example queries]({EXAMPLES})\n"
        if comparison is not None:
            table = str(comparison)
            contents |= zip(_COMPARISON, (format_json(comparison.flatten()), table), strict=True)
            page += f"\n{table}"
            tables += f"\n{comparison.table('latex')}"
        contents[REPORT], contents["report.tex"] = make_page(self, text, page).to_html(), tables
        contents["metrics.csv"] = format_csv(self.name, self.metrics)
        contents["metrics.json"] = format_json(self.metrics)
        write_files(folder, contents, stale={*_COMPARISON, EXAMPLES, QUERIES} - set(contents))

    def _describe(self, result: Result) -> dict[str, Any]:
        """A result for `benchmarks.json`."""
        directions = result.directions.items()
        return {
            "definition": result.definition,
            "label_set": result.label_set,
            "label_hash": result.label_hash,
            "similarity": self.similarity,
            "bootstrap": {"samples": self.samples, "seed": self.seed},
            "galleries": {name: each.counts for name, each in directions},
            "skipped": dict(result.skipped),
            "rescored": {n: dataclasses.asdict(x.rescored) for n, x in directions if x.rescored},
            "missing": {f"{n}/{tag}": why for n, x in directions for tag, why in x.missing.items()},
            "records": dict(self.provenance.records),
            "trained_on": dict(self.trained_on),
        }


def pack_ranks(evaluation: Evaluation) -> bytes:
    """Returns the content of `ranks.npz`; equal results have equal bytes."""
    arrays: dict[str, Any] = {}
    results = [dataclasses.replace(each, metrics={}, chance={}) for each in evaluation.comparable]
    packed = [_pack(dataclasses.asdict(each), each.name, arrays) for each in results]
    records = dict(evaluation.provenance.records)
    header = {"model": evaluation.name, "records": records, "benchmarks": packed}
    arrays["header"] = np.array(json.dumps(_FORMAT | header, default=np.generic.item))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def find_evaluations(folder: epath.PathLike) -> dict[str, epath.Path]:
    """Returns evaluator -> folder of its results; `SINGLE` -> `folder` if these are of one.

    Args:
      folder: a run, whose final evaluation is meant, the output of a command, or one evaluation.
    """
    place = epath.Path(folder)
    if (place / RANKS).exists():
        return {SINGLE: place}
    folders = [each for each in (place / FINAL, place) if each.is_dir()]
    entries = [entry for each in folders for entry in sorted(each.iterdir())]
    return {entry.name: entry for entry in entries if (entry / RANKS).exists()}


def find_ranks(
    folder: epath.PathLike,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    records: Mapping[str, str] | None = None,
) -> Evaluation:
    """Returns the only results in a folder, those of an evaluator, or those on the same labels.

    Args:
      folder: `ranks.npz`, the folder of an evaluation, or one with the folders of several, see
        `find_evaluations`.
      name: the evaluator.
      labels: the labels, as `Evaluation.hashes`, if the folder has several evaluations and none
        of this evaluator.
      records: the records, as in `Provenance`.
    """
    places = find_evaluations(folder)
    if len(places) < 2 or name in places:
        return load_ranks(places.get(name, next(iter(places.values()), folder)))
    same = find_same(labels or {}, records or {}, places)
    if len(same) != 1:
        raise UserError(
            f"{folder} has {len(same)} evaluations on the labels {labels or {}}: name the folder "
            f"of one; there are {', '.join(map(str, places.values()))}."
        )
    return load_ranks(places[same[0]])


def find_same(
    labels: Mapping[str, str], records: Mapping[str, str], places: Mapping[str, epath.Path]
) -> list[str]:
    """Returns the names of the evaluations on these labels and records, as in `find_ranks`."""
    return [
        name
        for name, place in places.items()
        if have_same_labels(labels, (stored := load_ranks(place)).hashes)
        and not different_records(records, stored.provenance.records)
    ]


def load_ranks(path: epath.PathLike) -> Evaluation:
    """Returns the content of a file from `pack_ranks`, or of the one in an evaluation's folder."""
    path = epath.Path(path)
    path = path / RANKS if path.is_dir() else path
    if not path.exists():
        raise UserError(f"There is no file {path}; name the output folder of an evaluation.")
    try:
        with load_arrays(io.BytesIO(path.read_bytes())) as file:
            arrays = dict(file)
        header = json.loads(
            str(arrays["header"]), object_hook=lambda x: arrays[x[_ARRAY]] if _ARRAY in x else x
        )
        if header["version"] != _FORMAT["version"]:
            raise ValueError(f"version {header['version']} of {header['format']}")
        results = [*map(_unpack, header["benchmarks"])]
        model, records = header["model"], header["records"]
    except (AttributeError, *DAMAGE) as error:
        raise UserError(
            f"{path} is not the {RANKS} of an evaluation, or it is damaged or of another version "
            f"({error}): evaluate that model again."
        ) from error
    folder = str(path.parent) if path.parent.name else path.name
    return Evaluation(model, results, "", Provenance("", records=records), place=folder)


def _pack(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A tree of values without its arrays, which are added under their paths."""
    if isinstance(value, Mapping):
        parts = {"directions": path, "correlations": path}  # Paths skip these levels.
        return {k: _pack(x, parts.get(k, f"{path}/{k}"), arrays) for k, x in value.items()}
    if not isinstance(value, np.ndarray | list):
        return value
    arrays[path] = np.asarray(value)
    return {_ARRAY: path}


def _unpack(fields: dict[str, Any]) -> Result:
    """The result with these fields, which `dataclasses.asdict` turned into dicts."""
    for name, each in fields["directions"].items():
        rescored = each["rescored"] and Rescored(**each["rescored"])
        fields["directions"][name] = DirectionResult(**each | {"rescored": rescored})
    for name, each in fields["correlations"].items():
        fields["correlations"][name] = CorrelationResult(**each)
    return Result(**fields)
