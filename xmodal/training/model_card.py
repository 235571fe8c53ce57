"""The card of a run, `RUN_DIR/model_card.md`: every fact that a reader of its numbers asks for."""

import dataclasses
import json
import os
from collections.abc import Sequence

import jax
from etils import epath
from jax.sharding import Mesh

import xmodal
from xmodal import processes
from xmodal.atomic import replacing
from xmodal.evals import Evaluation
from xmodal.training.finished import FINAL
from xmodal.training.run import Parts
from xmodal.training.run_records import Records
from xmodal.training.start import describe

CARD = "model_card.md"
_COMPUTE = "compute.json"
_DIGITS = 16  # of a hash


@dataclasses.dataclass(frozen=True)
class Compute:
    """Devices of a run.

    Attributes:
      devices: number of them.
      kind: as JAX names it.
      flops_per_step: of one device, as its compiler counts them; 0 where it does not.
    """

    devices: int
    kind: str
    flops_per_step: float

    @classmethod
    def of(cls, mesh: Mesh, flops_per_step: float) -> "Compute":
        """Returns the devices of a mesh."""
        return cls(mesh.size, mesh.devices.flat[0].device_kind, flops_per_step)

    def save(self, run_dir: str) -> None:
        """Keeps the devices of the last start in the run's folder; on process 0."""
        if processes.index() == 0:
            with replacing(epath.Path(run_dir) / _COMPUTE) as file:
                file.write(f"{json.dumps(dataclasses.asdict(self), indent=2)}\n".encode())


def write_card(
    run_dir: str, parts: Parts, records: Records, evaluations: Sequence[Evaluation]
) -> None:
    """Writes the card of a finished run on process 0.

    Args:
      run_dir: the run's folder, with its `compute.json`.
      parts: of the run.
      records: that it learned from.
      evaluations: of its best checkpoint.
    """
    if processes.index() > 0:
        return
    compute = Compute(**json.loads((epath.Path(run_dir) / _COMPUTE).read_text()))
    sections = [
        f"# {parts.settings.name}",
        "## Model",
        f"```\n{describe(parts)}\n```",
        _describe_start(parts),
        "## Training",
        _describe_training(parts, records),
        _describe_compute(parts, compute),
        "## Use",
        f'```python\nmodel = xmodal.load("{run_dir}")\n```',
        f"Made with xmodal {xmodal.__version__} and jax {jax.__version__}; `config.json` beside "
        "this card has every setting.",
        "## Evaluation",
        *(_nest(each) for each in evaluations),
    ]
    with replacing(epath.Path(run_dir) / CARD) as file:
        file.write(("\n\n".join(sections) + "\n").encode())


def _describe_start(parts: Parts) -> str:
    init = parts.settings.init_from
    sources = {
        "run": init.run,
        "model": init.model,
        "image tower": init.towers.image,
        "text tower": init.towers.text,
        "word vectors": init.word_vectors.file,
    }
    named = [f"{kind} `{path}`" for kind, path in sources.items() if path]
    start = f"Weights to start from: {', '.join(named)}." if named else "Trained from scratch."
    return f"{start} Seed {parts.settings.seed}."


def _describe_training(parts: Parts, records: Records) -> str:
    settings = parts.settings
    seen = settings.total_steps * settings.batch_size
    source = f"{settings.data.dataset}/{settings.data.config}"
    lines = [
        f"{settings.total_steps:,} steps of {settings.batch_size:,} examples, {seen:,} in all: "
        f"{seen / records['examples']:.3g} times the {records['examples']:,} examples of the split "
        f"`{settings.train_split}` of {source}."
    ]
    lines += [f"- {name}: `{digits[:_DIGITS]}`" for name, digits in records["train"].items()]
    return "\n".join(lines)


def _describe_compute(parts: Parts, compute: Compute) -> str:
    text = f"{compute.devices} x {compute.kind}"
    if not compute.flops_per_step:
        return f"{text}."
    total = compute.flops_per_step * compute.devices * parts.settings.total_steps
    return (
        f"{text}, {compute.flops_per_step / 1e9:.3g} GFLOP per step and device, {total / 1e12:.3g} "
        "TFLOP in all as the compiler counts them."
    )


def _nest(evaluation: Evaluation) -> str:
    """A report as a subsection: its headings two levels deeper."""
    folder = os.path.join(FINAL, evaluation.evaluator)
    lines = [
        f"##{line}" if line.startswith("#") else line for line in evaluation.report().splitlines()
    ]
    return "\n".join([*lines, "", f"Results: `{folder}`."])
