"""Waits for a run and its checkpoints while it trains."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import ml_collections
from absl import logging
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.progress import check_stop
from xmodal.train.folder import run_folder

POLL_SECONDS = 5.0
_T = TypeVar("_T")


def wait_for_run(run_dir: str, *, timeout: float) -> ml_collections.ConfigDict:
    """Returns the config of a run, once it has started, within `timeout` seconds."""
    path = epath.Path(run_dir) / "config.json"
    if _wait(lambda: path.exists() or None, f"the run {run_dir}", timeout) is None:
        raise UserError(f"The run {run_dir} did not start within {timeout:.0f} s (--timeout).")
    return run_folder.load_run(run_dir)


def follow(run_dir: str, output: str, *, timeout: float, overwrite: bool = False) -> Iterator[int]:
    """Yields the checkpoints that are not yet evaluated as they appear, oldest first.

    Ends after the run's last step, or when no new checkpoint has appeared for `timeout` seconds.

    Args:
      run_dir: folder of the run.
      output: folder of its results.
      timeout: seconds to wait.
      overwrite: whether to remove and ignore existing results.
    """
    results = epath.Path(output) / "steps"
    if overwrite:
        results.rmtree(missing_ok=True)
    done = {int(path.stem) for path in results.glob("*.json")}

    def find() -> int | None:
        return next((step for step in run_folder.steps(run_dir) if step not in done), None)

    # The config is read again, since a run may be extended.
    while (last := int(run_folder.load_run(run_dir).total_steps)) not in done:
        step = _wait(find, "a checkpoint", timeout)
        if step is None:
            logging.warning(
                "No new checkpoint in %s for %.0f s; %s are done; step %d would be the last.",
                *(run_dir, timeout, sorted(done), last),
            )
            return
        yield step
        done.add(step)


def _wait(find: Callable[[], _T | None], what: str, timeout: float) -> _T | None:
    """Returns the first result that is not None; None after `timeout` seconds."""
    started = time.monotonic()
    while (found := find()) is None and time.monotonic() - started < timeout:
        check_stop(f"waiting for {what}")
        time.sleep(min(POLL_SECONDS, timeout))
    return found
