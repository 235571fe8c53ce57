"""Services that follow a run beside TensorBoard's files: Weights & Biases and MLflow.

Each has one run of the service per folder, whose id is in `RUN/loggers.json`, so that a resumed run
continues it. Server, project, login and offline mode are the service's own settings, such as
`WANDB_PROJECT`, `WANDB_MODE` and `MLFLOW_TRACKING_URI`.
"""

import contextlib
import importlib.util
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import jax
from etils import epath

from xmodal.core.config import flatten_section
from xmodal.core.errors import UserError
from xmodal.core.files import read_json, write_file
from xmodal.core.untrusted.picture_formats import open_picture


class WandbRun:
    """A run of Weights & Biases, with its id."""

    def __init__(self, known: str | None, config: Mapping[str, Any]) -> None:
        """Continues the run with a known id, or starts one."""
        import wandb

        run = wandb.init(id=known, name=config["name"], config=dict(config), resume="allow")
        self._image, self._run, self.id = wandb.Image, run, run.id
        # Steps that a killed run repeats are before the last one of the service.
        run.define_metric("*", step_metric="step")

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Writes numbers by tag."""
        self._run.log({"step": step, **scalars})

    def write_pictures(self, step: int, pictures: Mapping[str, bytes]) -> None:
        """Writes encoded pictures by tag."""
        opened = {tag: self._image(open_picture(data)) for tag, data in pictures.items()}
        self.write_scalars(step, opened)

    def end(self, error: type[BaseException] | None, *_: object) -> None:
        """Ends the run, as failed after an error."""
        self._run.finish(exit_code=int(error is not None))


class MlflowRun:
    """A run of MLflow, with its id."""

    def __init__(self, known: str | None, config: Mapping[str, Any]) -> None:
        """Continues the run with a known id, or starts one."""
        import mlflow

        run = mlflow.start_run(run_id=known, run_name=config["name"])
        self._mlflow, self.id = mlflow, run.info.run_id
        if known is None:  # Settings of MLflow cannot change.
            flat = flatten_section(config).items()
            mlflow.log_params({_mlflow_name(path): value for path, value in flat})

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Writes numbers by tag, `recall_at_1` for `recall@1` as in MLflow's own metrics."""
        named = {_mlflow_name(tag): float(x) for tag, x in scalars.items()}
        self._mlflow.log_metrics(named, step=step)

    def write_pictures(self, step: int, pictures: Mapping[str, bytes]) -> None:
        """Writes encoded pictures by tag."""
        for tag, data in pictures.items():
            self._mlflow.log_image(open_picture(data), key=_mlflow_name(tag), step=step)

    def end(self, error: type[BaseException] | None, *_: object) -> None:
        """Ends the run, as failed after an error."""
        self._mlflow.end_run("FINISHED" if error is None else "FAILED")


def _mlflow_name(tag: str) -> str:
    return re.sub(r"[^\w/.\- :]", "_", tag.replace("@", "_at_"))


Service = WandbRun | MlflowRun
TENSORBOARD = "tensorboard"
SERVICES: dict[str, type[Service]] = {"wandb": WandbRun, "mlflow": MlflowRun}
"""Name, which is also that of the package and of the extra -> its run."""


def check_packages(loggers: Collection[str]) -> None:
    """Raises an error if the package of a service is missing."""
    for each in SERVICES.keys() & set(loggers):
        # A module without a file is the folder in which Weights & Biases keeps its runs.
        if getattr(importlib.util.find_spec(each), "origin", None) is None:
            raise UserError(
                f"config.loggers names {each!r}, whose package is missing: pip install "
                f'"xmodal[{each}]", or leave it out.'
            )


@contextlib.contextmanager
def open_services(config: Mapping[str, Any], run_dir: str) -> Iterator[list[Service]]:
    """Yields the runs of the services in `config.loggers`; process 0 alone writes.

    Args:
      config: the config of the run, which they show.
      run_dir: its folder.
    """
    path, opened = epath.Path(run_dir) / "loggers.json", []
    with contextlib.ExitStack() as stack:
        for name in [x for x in config["loggers"] if x in SERVICES and jax.process_index() == 0]:
            ids = read_json(path, "remove it to start new runs.") if path.exists() else {}
            opened.append(SERVICES[name](ids.get(name), config))
            stack.push(opened[-1].end)
            write_file(path, f"{json.dumps(ids | {name: opened[-1].id})}\n")
        yield opened
