"""Finished runs: where to find their results, and a quick answer to a second start."""

import hashlib
import json
import os
import pathlib
import shlex
from collections.abc import Mapping

import ml_collections
from etils import epath

from xmodal.core.files import FINAL, read_json, write_file
from xmodal.core.folders import hash_files

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
        write_file(epath.Path(run_dir) / _MARK, f"{json.dumps(mark)}\n")


def finished_reports(config: ml_collections.ConfigDict, run_dir: str) -> list[epath.Path]:
    """Returns the reports of a run that finished with this config and these files, or none.

    With them are the comparisons with its start.
    """
    path = epath.Path(run_dir) / _MARK
    mark = read_json(path, "remove it.") if path.exists() else {}
    if mark.get("config_hash") != _hash(config):
        return []
    for folder, known in mark["files"].items():
        if not os.path.isdir(folder) or hash_files(pathlib.Path(folder)) != known:
            return []
    folders = [epath.Path(run_dir) / FINAL / name for name in sorted(config.evals)]
    if not all((folder / "report.md").exists() for folder in folders):
        return []
    found = [folder / name for folder in folders for name in ("report.md", "comparison.md")]
    return [each for each in found if each.exists()]


def next_steps(run_dir: str, config: ml_collections.ConfigDict) -> str:
    """Returns the paths of a finished run and two commands to explore it."""
    results, folder = os.path.join(run_dir, FINAL), shlex.quote(run_dir)
    reports = [os.path.join(results, name, "report.html") for name in sorted(config.evals)]
    lines = [f"Report:  {report}\n" for report in reports]
    return (
        f"\nRun:     {run_dir}\n{''.join(lines)}Numbers: {results}/metrics.json\n\n"
        f"Look at the curves, or evaluate again:\n"
        f"  tensorboard --logdir {folder}\n  python -m xmodal.eval_main --run={folder}"
    )


def _hash(config: ml_collections.ConfigDict) -> str:
    return hashlib.sha256(config.to_json_best_effort(sort_keys=True).encode()).hexdigest()
