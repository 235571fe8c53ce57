"""Finished runs: where to find their results, and a quick answer to a second start."""

import hashlib
import json
import os
import pathlib
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import ml_collections
from absl import logging
from etils import epath

from xmodal.core.atomic import write_atomically
from xmodal.core.errors import UserError
from xmodal.core.folders import hash_files
from xmodal.core.json_files import read_json
from xmodal.core.result_files import FINAL

_MARK = "finished.json"


def mark_finished(
    config: ml_collections.ConfigDict, run_dir: str, files: Mapping[str, str] | None = None
) -> None:
    """Saves the configuration that a run finished with, on process 0.

    Args:
      config: the config as it was given.
      run_dir: the run's folder.
      files: hashes of the user's folders whose files the run depends on, see `hash_files`.
    """
    from xmodal.core import processes  # Imports JAX, which readers of results do not need.

    if processes.index() == 0:
        mark = {"config_hash": _hash(config), "files": dict(files or {})}
        write_atomically(epath.Path(run_dir) / _MARK, f"{json.dumps(mark)}\n")


def finished_reports(config: ml_collections.ConfigDict, run_dir: str) -> list[epath.Path]:
    """Returns the reports of a run that finished with this config and these files, or none."""
    mark = _read_mark(epath.Path(run_dir) / _MARK)
    files = mark.get("files")
    if mark.get("config_hash") != _hash(config) or not isinstance(files, dict):
        return []
    try:
        if any(hash_files(pathlib.Path(folder)) != known for folder, known in files.items()):
            return []
    except FileNotFoundError:
        return []
    reports = [epath.Path(run_dir) / FINAL / name / "report.md" for name in sorted(config.evals)]
    return reports if all(report.exists() for report in reports) else []


def next_steps(run_dir: str, config: ml_collections.ConfigDict) -> str:
    """Returns the paths of a finished run and two commands to explore it."""
    reports = [os.path.join(run_dir, FINAL, name, "report.html") for name in sorted(config.evals)]
    return "\n".join(
        [
            "",
            f"Run:     {run_dir}",
            *(f"Report:  {report}" for report in reports),
            f"Numbers: {os.path.join(run_dir, FINAL, 'metrics.json')}",
            f"Card:    {os.path.join(run_dir, 'model_card.html')}",
            "",
            *_commands(run_dir, config),
        ]
    )


def _commands(run_dir: str, config: ml_collections.ConfigDict) -> list[str]:
    folder = shlex.quote(run_dir)
    curves = f"  tensorboard --logdir {folder}"
    image, text = config.model.get("image"), config.model.get("text")
    # `show` needs pictures, and embeddings that find them.
    shown = image and text and image.encoder.name != "precomputed"
    if not shown or (image.get("head") or {}).get("name") == "none":
        evaluate = f"  python -m xmodal.eval_main --run={folder}"
        return ["Look at the curves, or evaluate again:", curves, evaluate]
    page = shlex.quote(os.path.join(run_dir, "captions.html"))
    show = f"  python -m xmodal show --model={folder} --output={page}"
    return ["Look at the curves, or at captions and the pictures they find:", curves, show]


def _read_mark(path: epath.Path) -> dict[str, Any]:
    try:
        return read_json(path, "this start writes it again.") if path.exists() else {}
    except UserError as error:  # The run itself determines whether it is finished.
        logging.warning("%s", error)
        return {}


def _hash(config: ml_collections.ConfigDict) -> str:
    """The hash of a config, and of the sizes and times of the files it names, such as templates."""
    text = config.to_json_best_effort(sort_keys=True)
    paths = {each for each in _strings(json.loads(text)) if os.path.isfile(each)}
    stamps = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in sorted(paths)]
    return hashlib.sha256(f"{text}{stamps or ''}".encode()).hexdigest()


def _strings(value: Any) -> Iterator[str]:
    """The strings among the values of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
