r"""Compares metrics by how they rank models: Kendall's tau-b, ranks and a bump chart.

    python -m xmodal agree --models=OUT1,OUT2,OUT3 --output=AGREEMENT
    python -m xmodal agree --models=A.npz,B.json,third=C.npz --annotations=LABELS1,LABELS2 \
        --similarity=cosine --output=AGREEMENT

--models takes folders of evaluations and JSON tables {model: {tag: number}}. With --annotations,
it takes files of embeddings, scores or rankings. Each is evaluated on every folder of labels, and
the results are saved in AGREEMENT/LABELS/MODEL. All results of a model are compared together.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, new_figure, to_bytes
from xmodal.apps.analysis.metric_tables import Models, check_labels, choose_metrics, load_models
from xmodal.apps.arguments import add_texts, make_parser, name_list
from xmodal.core import console
from xmodal.core.files import check_writable, format_json, write_files
from xmodal.core.text_table import Rows, format_document, format_number
from xmodal.evals.reports.metrics import lower_is_better
from xmodal.evals.reports.published import PUBLISHED_LABELS, eccv_table_5
from xmodal.evals.reports.uncertainty import compute_interval, draw_resamples

# Metric -> model -> rank, as `ranks_of_models` returns them.
Ranks = Mapping[str, Mapping[str, float]]

_ON_INTERVALS = (
    "The middle 95 % of 1,000 bootstrap samples of the models: how tau-b would vary over other "
    "models like these. They leave out the noise of queries, and take models as independent."
)
_FEW = "**FEWER THAN FIVE MODELS: tau-b takes few values, and its interval says little.**"


@console.readable_errors()
def main() -> None:
    """Compares the metrics that the command line names."""
    parser = make_parser("agree", __doc__)
    parser.add_argument("--models", type=name_list, required=True, help="folders, tables or files")
    parser.add_argument("--annotations", type=name_list, help="folders of labels, for files")
    add_texts(parser, similarity="for embeddings whose file names none")
    parser.add_argument("--metrics", type=name_list, help="tags to compare, * for any characters")
    parser.add_argument("--output", required=True, help="folder for the tables and the chart")
    args = parser.parse_args()
    check_writable(args.output)
    if args.annotations:
        from xmodal.apps.model_files import evaluate_files  # Imports JAX.

        args.models = evaluate_files(args.models, args.annotations, args.output, args.similarity)
    print(compare(args.models, args.output, args.metrics), flush=True)


def compare(paths: Sequence[str], output: str, metrics: Sequence[str] | None = None) -> str:
    """Writes `agreement.json`, `.md` and `.tex`, and `bump_chart.png`; returns the Markdown.

    Args:
      paths: JSON tables of models and folders of evaluations; see `load_models`.
      output: folder to write to.
      metrics: tags to compare; None for the usual ones, see `choose_metrics`.
    """
    models = load_models(paths)
    labels = check_labels(paths, by_name=True)
    chosen = choose_metrics(models, metrics)
    (tau, counts), ranks = kendall_tau_b(models, chosen), ranks_of_models(models, chosen)
    limits = tau_intervals(models, chosen)
    text = format_agreement(models, chosen, labels, limits)
    found = {"metrics": chosen, "tau_b": tau.tolist(), "models": counts.tolist(), "ranks": ranks}
    found |= {"labels": labels, "tau_b_low": limits[0].tolist(), "tau_b_high": limits[1].tolist()}
    contents: dict[str, str | bytes] = {
        "agreement.json": format_json(found),
        "agreement.md": text,
        "agreement.tex": format_agreement(models, chosen, labels, limits, "latex"),
        "bump_chart.png": draw_bump_chart(ranks, title=f"Ranks of {len(models)} models"),
    }
    write_files(output, contents)
    return text


def kendall_tau_b(models: Models, metrics: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Correlates the rankings by every two metrics, over the models that have both.

    If less is better for a metric, its sign is flipped, so that positive values always mean that
    the two metrics prefer the same models.

    Args:
      models: model -> tag -> number.
      metrics: M tags.

    Returns:
      Tau-b, float64 [M, M], NaN if fewer than two models have both metrics or one metric is the
      same for all of them; and how many models have both metrics, int64 [M, M].
    """
    values = _quality_table(models, metrics)
    known = (~np.isnan(values)).astype(np.int64)
    return tau_b(values), known.T @ known


def tau_b(values: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Returns Kendall's tau-b between M columns of numbers, over the rows that both have.

    Args:
      values: floats [..., N, M], NaN where missing.
      counts: how often every row occurs, numbers [N]; None for once.

    Returns:
      float64 [..., M, M]; NaN if one of the columns is constant.
    """
    signs = np.sign(values[..., :, None, :] - values[..., None, :, :])
    signs = signs.reshape(*values.shape[:-2], -1, values.shape[-1])  # A row per pair of rows.
    weights = 1.0 if counts is None else np.outer(counts, counts).reshape(-1, 1)
    known, signs = weights * ~np.isnan(signs), np.nan_to_num(signs)
    turned = np.swapaxes(signs, -1, -2)
    ordered = turned**2 @ known
    with np.errstate(invalid="ignore"):
        return turned @ (weights * signs) / np.sqrt(ordered * np.swapaxes(ordered, -1, -2))


def tau_intervals(models: Models, metrics: Sequence[str]) -> np.ndarray:
    """Returns the 95 % intervals of tau-b, float64 [2, M, M], from a bootstrap of the models.

    Copies of a model in one sample are ties; samples that leave tau-b undefined do not count.
    """
    values = _quality_table(models, metrics)
    drawn = [tau_b(values, counts) for counts in draw_resamples(len(values), 1000, seed=0)]
    return np.apply_along_axis(compute_interval, 0, np.stack(drawn))


def ranks_of_models(models: Models, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Ranks the models by every metric, 1 for the best; tied models share the mean of their ranks.

    Args:
      models: model -> tag -> number.
      metrics: tags.

    Returns:
      Tag -> model -> rank, in the order of `models` and without those that lack the metric.
    """
    from scipy import stats  # Slow to import.

    places = stats.rankdata(-_quality_table(models, metrics), axis=0, nan_policy="omit")
    return {
        metric: {name: rank for name, rank in zip(models, column, strict=True) if rank == rank}
        for metric, column in zip(metrics, places.T.tolist(), strict=True)
    }


def _quality_table(models: Models, metrics: Sequence[str]) -> np.ndarray:
    """The numbers, with larger ones better, float64 [models, M]; NaN for missing metrics."""
    values = [[row.get(metric, math.nan) for metric in metrics] for row in models.values()]
    signs = [-1.0 if lower_is_better(metric) else 1.0 for metric in metrics]
    return np.array(values, np.float64) * signs


def format_agreement(
    models: Models,
    metrics: Sequence[str],
    labels: Mapping[str, str],
    limits: np.ndarray,
    format: str = "markdown",
) -> str:
    """Formats tau-b with intervals, the paper's values for metrics in table 5, and the ranks.

    Columns are labeled with row numbers, since tags are long.

    Args:
      models: model -> tag -> number.
      metrics: tags.
      labels: see `check_labels`; the paper's values are left out for labels that are not its own.
      limits: see `tau_intervals`.
      format: see `text_table.format_document`.
    """
    tau, counts = kendall_tau_b(models, metrics)
    least, most = counts.min(), counts.max()
    over = f"{most}" if least == most else f"{least} to {most}"
    sections: list[str | Rows] = [
        "# Agreement between metrics",
        f"Kendall tau-b between the rankings of {over} models: 1 where two metrics order them "
        "alike, 0 where one says nothing of the other.",
        *[_FEW] * bool(least < 5),
        _make_matrix(metrics, tau),
        "## 95 % intervals",
        _ON_INTERVALS,
        _make_matrix(metrics, *limits),
    ]
    own, table = dict(labels.items() - PUBLISHED_LABELS.items()), eccv_table_5()
    shown = ["" if tag.partition("/")[0] in own else tag for tag in metrics]
    printed = np.array([[table.get((a, b), np.nan) for b in shown] for a in shown])
    if not np.isnan(printed).all():
        sections += ["## ECCV Caption paper, table 5", "As printed, over the paper's 25 models."]
        sections.append(_make_matrix(metrics, printed))
    ranks = ranks_of_models(models, metrics)
    rows = [["", *(f"({j + 1})" for j in range(len(metrics)))]]
    for model in sorted(models, key=lambda model: ranks[metrics[0]].get(model, math.inf)):
        rows.append([model, *(format_number(each.get(model), "g") for each in ranks.values())])
    sections += ["## Ranks of the models", "1 is best; ties share a rank.", rows]
    return format_document(sections, format)


def _make_matrix(metrics: Sequence[str], *values: np.ndarray) -> Rows:
    """The upper triangle of a symmetric matrix, or of the lower and upper limits of intervals."""
    rows = [["", *(f"({j + 1})" for j in range(len(metrics)))]]
    for i, metric in enumerate(metrics):
        columns = zip(*(each[i] for each in values), strict=True)
        cells = [" to ".join(format_number(x, ".2f") for x in each) for each in columns]
        rows.append([f"({i + 1}) {metric}", *[""] * (i + 1), *cells[i + 1 :]])
    return rows


def draw_bump_chart(ranks: Ranks, *, title: str = "") -> bytes:
    """Returns a PNG with a line per model over the metrics, the best model on top.

    Tied models are drawn below each other in the order of the metric before, marked with the rank
    they share; a line is interrupted where its model lacks the metric.

    Args:
      ranks: metric -> model -> rank, metrics from left to right.
      title: printed above.
    """
    from matplotlib import colormaps

    columns: list[dict[str, int]] = []
    for column in ranks.values():
        before = columns[-1] if columns else {}
        order = sorted(column, key=lambda model: (column[model], before.get(model, math.inf)))
        columns.append({model: place for place, model in enumerate(order)})
    models = list(dict.fromkeys(model for column in columns for model in column))
    rows = max(2, *map(len, columns))
    with new_figure(3 + 1.3 * len(ranks), 1.2 + 0.34 * rows, title) as figure:
        axes = figure.subplots()
        for model, shade in zip(models, np.linspace(0.06, 0.94, len(models)), strict=True):
            places = {x: column[model] for x, column in enumerate(columns) if model in column}
            line = [places.get(x, math.nan) for x in range(len(columns))]
            dark = [0.82 * part for part in colormaps["turbo"](shade)[:3]]  # Readable on white.
            axes.plot(line, "o-", color=dark, lw=2.4, markersize=15)
            for x, y in places.items():
                rank = f"{[*ranks.values()][x][model]:g}"
                axes.text(x, y, rank, c="white", size=7, ha="center", va="center_baseline")
            for x, side, offset in ((min(places), "right", -12), (max(places), "left", 12)):
                axes.annotate(model, (x, line[x]), (offset, 0), textcoords="offset points",
                              ha=side, va="center_baseline", fontsize=9)  # fmt: skip
        axes.set(xlim=(-1.3, len(ranks) + 0.3), ylim=(rows - 0.4, -0.6), yticks=[])
        axes.set_xticks(range(len(ranks)), list(ranks), rotation=20, ha="left", color=GRAY)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return to_bytes(figure)


if __name__ == "__main__":
    console.run(main)
