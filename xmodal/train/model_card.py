"""The card of a run, `RUN_DIR/model_card.md`: all facts that a reader of its metrics needs.

`RUN_DIR/model_card.html` has the same content as a web page.
"""

import os
from collections.abc import Sequence

import jax

from xmodal import data
from xmodal.core.files import FINAL, write_files
from xmodal.core.page import from_markdown
from xmodal.core.version import __version__
from xmodal.evals import Evaluation
from xmodal.evals.reports.evaluation import REPORT
from xmodal.pretrained.packaged_towers import describe_source
from xmodal.train.run import Run
from xmodal.train.sections import InitConfig
from xmodal.train.start import describe

_DIGITS = 16  # Shown digits of a hash.


def write_card(run_dir: str, run: Run, evaluations: Sequence[Evaluation]) -> None:
    """Writes the card of a finished run, with evaluations of its best checkpoint, on process 0."""
    if jax.process_index() > 0:
        return
    settings, records = run.settings, run.records
    source = f"{settings.data.dataset}/{settings.data.config}"
    if data.follows_files(settings.data):
        source = f"{data.title_of(settings.data)} ({source})"
    epochs = settings.total_steps * settings.batch_size / records["examples"]
    sections = [
        f"# {settings.name}",
        "## Model",
        f"```\n{describe(run)}\n```",
        f"{_describe_start(settings.init_from)} Seed {settings.seed}.",
        "## Training",
        f"{settings.total_steps:,} steps with batches of {settings.batch_size:,}: {epochs:.3g} "
        f"times the {records['examples']:,} examples of the split `{settings.train_split}` of "
        f"{source}.",
        "\n".join(f"- {name}: `{x[:_DIGITS]}`" for name, x in records["train"].items()),
        "## Use",
        f'```python\nmodel = xmodal.load("{run_dir}")\n```',
        f"Made with xmodal {__version__} and jax {jax.__version__}; `config.json` beside "
        "this card has every setting.",
        "## Evaluation",
        *map(_nest, evaluations),
    ]
    text = "\n\n".join(sections) + "\n"
    page = from_markdown(text).to_html()
    write_files(run_dir, {"model_card.md": text, "model_card.html": page})


def _describe_start(init: InitConfig) -> str:
    sources = {
        "run": init.run,
        "model": init.model,
        "image tower": init.towers.image,
        "text tower": init.towers.text,
        "word vectors": init.word_vectors.file,
    }
    named = [f"{kind} `{path}`{describe_source(path)}" for kind, path in sources.items() if path]
    return f"Weights to start from: {', '.join(named)}." if named else "Trained from scratch."


def _nest(evaluation: Evaluation) -> str:
    """A report as a subsection, with its headings two levels deeper."""
    folder = os.path.join(FINAL, evaluation.evaluator)
    lines = [
        f"##{line}" if line.startswith("#") else line for line in evaluation.report().splitlines()
    ]
    return "\n".join([*lines, "", f"Results: [`{folder}`]({folder}/{REPORT})."])
