"""A run's weights averaged with those that it started from, evaluated at several weights.

Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), WiSE-FT.
"""

import re
from collections.abc import Iterator, Sequence

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.json_files import read_numbers
from xmodal.core.result_files import write_files
from xmodal.core.text_table import Bold, format_table
from xmodal.evals.reports.metrics import find_best
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.subjects import Opened
from xmodal.train.evaluation.suite import Subject
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.initialization.interpolate import mix
from xmodal.train.start import initial_state

# The metrics in the table of a curve; all have an interval.
_SHOWN = ("recall@1", "accuracy@1", "map@r", "spearman")


def open_interpolation(
    evaluation: RunEvaluation, run_dir: str, step: int, weights: Sequence[float]
) -> Opened:
    """Returns (1 - w) a + w b for every weight w; its step is w in percent.

    Args:
      evaluation: the evaluation of the run.
      run_dir: its folder.
      step: the checkpoint b; a is the source in the run's `config.init_from`.
      weights: the weights.

    Raises:
      UserError: the run started from random weights.
    """
    parts, records = evaluation.parts, run_folder.load_records(run_dir).get("train", {})
    source = parts.settings.init_from
    if not (source.run or source.model or source.towers.image or source.towers.text):
        raise UserError(
            f"--interpolate: {run_dir} started from random weights, which are not worth averaging; "
            "name a run whose config.init_from has a run, model or tower."
        )

    def subjects() -> Iterator[Subject]:
        state = initial_state(parts)
        first = {"params": state.all_params(), "model_state": state.model_state}
        restored = checkpoints.restore_model(run_dir, step, parts.shapes, parts.mesh)
        last = dict(zip(first, restored, strict=True))
        for weight in weights:
            adapter = evaluation.adapter(**mix(last, first, 1 - weight))
            name = f"{weight:g} {parts.config.name} step {step}"
            yield Subject(name, adapter, trained_on=records, step=round(100 * weight))

    identity = ModelIdentity.of_config(run_folder.load_run(run_dir), records)
    return Opened(evaluation.suite, subjects(), identity, parts.settings.tensorboard)


def write_curve(output: str, weights: Sequence[float]) -> str:
    """Returns the results of every weight as a Markdown table, and writes it to `curve.md`.

    `curve.tex` has it in LaTeX, where the best of a column and all whose intervals overlap its own
    are bold.

    Args:
      output: folder of the results of `open_interpolation`.
      weights: the weights.
    """
    steps, remedy = epath.Path(output) / "steps", "evaluate the run again."
    found = [read_numbers(steps / f"{round(100 * weight)}.json", remedy) for weight in weights]
    tags = [tag for tag in found[0] if tag.endswith(_SHOWN) and f"{tag}_low" in found[0]]
    columns = [["weight", *(f"{weight:g}" for weight in weights)]]
    for tag in tags:
        cells = [
            f"{numbers[tag]:.1f} [{numbers[f'{tag}_low']:.1f}, {numbers[f'{tag}_high']:.1f}]"
            for numbers in found
        ]
        marked = zip(cells, find_best(tag, found), strict=True)
        columns.append([tag, *(Bold(cell) if best else cell for cell, best in marked)])
    rows = [*zip(*columns, strict=True)]
    table, latex = format_table(rows), format_table(rows, "latex")
    write_files(output, {"curve.md": f"{table}\n", "curve.tex": f"{latex}\n"})
    return table


def read_weights(given: Sequence[str]) -> list[float]:
    """Returns the weights of the flag `--interpolate`, ascending.

    Raises:
      UserError: one is not a number of whole percent between 0 and 1.
    """
    for text in given:
        if not re.fullmatch(r"0|1|0?\.\d\d?0*|[01]\.0+", text):
            raise UserError(
                f"--interpolate has {text!r}; weights are between 0 and 1, in whole percent, such "
                "as --interpolate=0,0.25,0.5,0.75,1."
            )
    return sorted(set(map(float, given)))
