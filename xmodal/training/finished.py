"""Runs that are finished: where to look, and an answer to a second start without any work."""

import hashlib
import json
import os
from collections.abc import Sequence

import ml_collections
from etils import epath

from xmodal import processes
from xmodal.atomic import replacing

# Folder of the final evaluation in a run's folder.
FINAL = "test"
_MARK = "finished.json"


def mark_finished(config: ml_collections.ConfigDict, run_dir: str) -> None:
    """Keeps the config that a run was finished under, as it was given; on process 0."""
    if processes.index() == 0:
        with replacing(epath.Path(run_dir) / _MARK) as file:
            file.write(f"{json.dumps({'config_hash': _hash(config)})}\n".encode())


def finished_reports(config: ml_collections.ConfigDict, run_dir: str) -> list[epath.Path]:
    """Returns the reports of a run that was finished under the same config; none for others."""
    mark = epath.Path(run_dir) / _MARK
    if not mark.exists() or json.loads(mark.read_text()).get("config_hash") != _hash(config):
        return []
    reports = [epath.Path(run_dir) / FINAL / name / "report.md" for name in sorted(config.evals)]
    return reports if all(report.exists() for report in reports) else []


def where_to_look(run_dir: str, evaluators: Sequence[str]) -> str:
    """Returns the paths of a finished run, and two commands to look at it."""
    reports = [os.path.join(run_dir, FINAL, name, "report.md") for name in sorted(evaluators)]
    return "\n".join(
        [
            "",
            f"Run:     {run_dir}",
            *(f"Report:  {report}" for report in reports),
            f"Numbers: {os.path.join(run_dir, FINAL, 'metrics.json')}",
            "",
            "Look at the curves, or evaluate again:",
            f"  tensorboard --logdir {run_dir}",
            f"  python -m xmodal.eval_main --run={run_dir}",
        ]
    )


def _hash(config: ml_collections.ConfigDict) -> str:
    return hashlib.sha256(config.to_json_best_effort(sort_keys=True).encode()).hexdigest()
