"""The card of a run, `RUN_DIR/model_card.md`: all facts that a reader of its numbers needs.

`RUN_DIR/model_card.html` has the same content as a web page.
"""

import os
from collections.abc import Sequence

import jax

from xmodal import data
from xmodal.core import processes
from xmodal.core.page import from_markdown
from xmodal.core.result_files import FINAL, write_files
from xmodal.core.version import __version__
from xmodal.evals import Evaluation
from xmodal.evals.reports.evaluation import REPORT
from xmodal.pretrained.packaged_towers import describe_source
from xmodal.train.folder.compute import Compute, read_starts
from xmodal.train.run import Run
from xmodal.train.start import describe

_CARD, _PAGE = "model_card.md", "model_card.html"
_DIGITS = 16  # Shown digits of a hash.


def write_card(run_dir: str, parts: Run, evaluations: Sequence[Evaluation]) -> None:
    """Writes the card of a finished run on process 0.

    Args:
      run_dir: the run's folder, with its `compute.json`.
      parts: parts of the run.
      evaluations: evaluations of its best checkpoint.
    """
    if processes.index() > 0:
        return
    total_steps, starts = parts.settings.total_steps, read_starts(run_dir)
    ends = [start.step for start in starts[1:]] + [total_steps]
    pairs = [(start, end - start.step) for start, end in zip(starts, ends, strict=True)]
    # The last start may only have evaluated.
    stretches = [(start, steps) for start, steps in pairs if steps > 0]
    sections = [
        f"# {parts.settings.name}",
        "## Model",
        f"```\n{describe(parts)}\n```",
        _describe_start(parts),
        "## Training",
        _describe_training(parts, stretches),
        "## Use",
        f'```python\nmodel = xmodal.load("{run_dir}")\n```',
        f"Made with xmodal {__version__} and jax {jax.__version__}; `config.json` beside "
        "this card has every setting.",
        "## Evaluation",
        *(_nest(each) for each in evaluations),
    ]
    text = "\n\n".join(sections) + "\n"
    write_files(run_dir, {_CARD: text, _PAGE: from_markdown(text).to_html()})


def _describe_start(parts: Run) -> str:
    init = parts.settings.init_from
    sources = {
        "run": init.run,
        "model": init.model,
        "image tower": init.towers.image,
        "text tower": init.towers.text,
        "word vectors": init.word_vectors.file,
        f"weight {init.interpolate.alpha:g} of": init.interpolate.run,
    }
    named = [f"{kind} `{path}`{describe_source(path)}" for kind, path in sources.items() if path]
    start = f"Weights to start from: {', '.join(named)}." if named else "Trained from scratch."
    return f"{start} Seed {parts.settings.seed}."


def _describe_training(parts: Run, stretches: Sequence[tuple[Compute, int]]) -> str:
    """The data, and the devices and FLOPs of every range of steps, a limit if texts vary."""
    settings, records = parts.settings, parts.records
    seen = sum(steps * start.batch_size for start, steps in stretches)
    source = f"{settings.data.dataset}/{settings.data.config}"
    if data.follows_files(settings.data):
        source = f"{data.title_of(settings.data)} ({source})"
    lines = [
        f"{settings.total_steps:,} steps, {seen:,} examples in all: "
        f"{seen / records['examples']:.3g} times the {records['examples']:,} examples of the "
        f"split `{settings.train_split}` of {source}.",
        "",
    ]
    lines += [f"- {name}: `{digits[:_DIGITS]}`" for name, digits in records["train"].items()]
    limit = "at most " if len(settings.data.text_layouts) > 1 else ""
    total = 0.0
    for start, steps in stretches:
        total += start.flops_per_step * start.devices * steps
        flops = f"{limit}{start.flops_per_step / 1e9:.3g} GFLOP per step and device"
        lines.append(
            f"- Steps {start.step + 1:,} to {start.step + steps:,}: batch {start.batch_size:,}, "
            f"{start.devices} x {start.kind}{f', {flops}' if start.flops_per_step else ''}."
        )
    if total and all(start.flops_per_step for start, _ in stretches):
        counted = "as the compiler counts them: the body of a loop once"
        lines += ["", f"{limit.capitalize()}{total / 1e12:.3g} TFLOP in all, {counted}."]
    return "\n".join(lines)


def _nest(evaluation: Evaluation) -> str:
    """A report as a subsection, with its headings two levels deeper."""
    folder = os.path.join(FINAL, evaluation.evaluator)
    lines = [
        f"##{line}" if line.startswith("#") else line for line in evaluation.report().splitlines()
    ]
    return "\n".join([*lines, "", f"Results: [`{folder}`]({folder}/{REPORT})."])
