"""Services that follow a run beside TensorBoard's files: Weights & Biases and MLflow.

Each has one run of the service per folder, whose id is in `RUN/loggers.json`, so that a resumed run
continues it. Server, project, login and offline mode are the service's own settings, such as
`WANDB_PROJECT`, `WANDB_MODE` and `MLFLOW_TRACKING_URI`.
"""

import html
import importlib.util
import io
import json
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np
import PIL.Image
from etils import epath

from xmodal.core.config import flatten_section
from xmodal.core.errors import UserError
from xmodal.core.files import read_json, write_file
from xmodal.train.event_writer import Writer, Writers

TENSORBOARD = "tensorboard"


class WandbWriter(Writer):
    """Writes to a run of Weights & Biases."""

    def __init__(self, known: str | None, config: Mapping[str, Any]) -> None:
        """Continues the run with a known id, or starts one."""
        import wandb

        run = wandb.init(id=known, name=config["name"], config=dict(config), resume="allow")
        self._types, self._run, self.id = wandb, run, run.id
        # Steps that a killed run repeats are before the last one of the service.
        run.define_metric("*", step_metric="step")

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """See `Writer`."""
        self._run.log({"step": step, **scalars})

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """See `Writer`."""
        pages = {tag: f"<pre>{html.escape(text)}</pre>" for tag, text in texts.items()}
        self.write_scalars(step, {tag: self._types.Html(page) for tag, page in pages.items()})

    def write_histograms(self, step: int, values: Mapping[str, np.ndarray]) -> None:
        """See `Writer`."""
        self.write_scalars(
            step, {tag: self._types.Histogram(x.tolist()) for tag, x in values.items()}
        )

    def write_pictures(self, step: int, pictures: Mapping[str, bytes]) -> None:
        """See `Writer`."""
        opened = {tag: PIL.Image.open(io.BytesIO(data)) for tag, data in pictures.items()}
        self.write_scalars(step, {tag: self._types.Image(x) for tag, x in opened.items()})

    def close(self) -> None:
        """See `Writer`; a run that ends by an error is marked as failed."""
        self._run.finish(exit_code=int(sys.exc_info()[0] is not None))


class MlflowWriter(Writer):
    """Writes to a run of MLflow, which has no histograms."""

    def __init__(self, known: str | None, config: Mapping[str, Any]) -> None:
        """Continues the run with a known id, or starts one."""
        import mlflow

        run = mlflow.start_run(run_id=known, run_name=config["name"])
        self._mlflow, self.id = mlflow, run.info.run_id
        if known is None:  # Settings of MLflow cannot change.
            flat = flatten_section(config).items()
            mlflow.log_params({_mlflow_name(path): value for path, value in flat})

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """See `Writer`; a name has `recall_at_1` for `recall@1`, as in MLflow's own metrics."""
        named = {_mlflow_name(tag): float(x) for tag, x in scalars.items()}
        self._mlflow.log_metrics(named, step=step)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """See `Writer`; a text replaces an earlier one of the tag."""
        for tag, text in texts.items():
            self._mlflow.log_text(text, f"{tag}.md")

    def write_pictures(self, step: int, pictures: Mapping[str, bytes]) -> None:
        """See `Writer`."""
        for tag, data in pictures.items():
            image = PIL.Image.open(io.BytesIO(data))
            self._mlflow.log_image(image, key=_mlflow_name(tag), step=step)

    def close(self) -> None:
        """See `Writer`; a run that ends by an error is marked as failed."""
        self._mlflow.end_run("FINISHED" if sys.exc_info()[0] is None else "FAILED")


def _mlflow_name(tag: str) -> str:
    return re.sub(r"[^\w/.\- :]", "_", tag.replace("@", "_at_"))


_SERVICES: dict[str, type[WandbWriter | MlflowWriter]] = {
    "wandb": WandbWriter,
    "mlflow": MlflowWriter,
}
"""Name, which is also that of the package and of the extra -> writer."""

LOGGERS = (TENSORBOARD, *_SERVICES)


def check_packages(loggers: Collection[str]) -> None:
    """Raises an error if the package of a service is missing."""
    for each in (each for each in loggers if each in _SERVICES):
        # A module without a file is the folder in which Weights & Biases keeps its runs.
        if getattr(importlib.util.find_spec(each), "origin", None) is None:
            raise UserError(
                f"config.loggers names {each!r}, whose package is missing: pip install "
                f'"xmodal[{each}]", or leave it out.'
            )


def open_services(config: Mapping[str, Any], run_dir: str) -> Writer:
    """Returns the writer of the services in `config.loggers`; process 0 alone writes.

    Args:
      config: the config of the run, which they show.
      run_dir: its folder.
    """
    path, opened = epath.Path(run_dir) / "loggers.json", []
    ids = read_json(path, "remove it to start new runs.") if path.exists() else {}
    for each in config["loggers"]:
        if each in _SERVICES and jax.process_index() == 0:
            opened.append(_SERVICES[each](ids.get(each), config))
            ids[each] = opened[-1].id
            write_file(path, f"{json.dumps(ids)}\n")
    return Writers(*opened)
