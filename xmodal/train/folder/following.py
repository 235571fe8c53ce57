"""Waits for a run and its checkpoints while it trains."""

import time
from collections.abc import Iterator

import ml_collections
from absl import logging
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.progress import check_stop
from xmodal.train.folder import run_folder

POLL_SECONDS = 5.0


def wait_for_run(run_dir: str, *, timeout: float) -> ml_collections.ConfigDict:
    """Returns the config of a run, once it has started.

    Raises:
      UserError: the run did not start within `timeout` seconds.
    """
    path, started = epath.Path(run_dir) / "config.json", time.monotonic()
    if not path.exists():
        logging.info("Waiting for the run %s to start, for at most %.0f s.", run_dir, timeout)
    while not path.exists():
        if time.monotonic() - started >= timeout:
            raise UserError(f"The run {run_dir} did not start within {timeout:.0f} s (--timeout).")
        check_stop("waiting for the run")
        time.sleep(min(POLL_SECONDS, timeout))
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
    steps = epath.Path(output) / "steps"
    results = steps.iterdir() if steps.is_dir() else ()
    finished = [path for path in results if path.suffix == ".json" and path.stem.isdecimal()]
    for path in finished if overwrite else ():
        path.unlink()
    done = set() if overwrite else {int(path.stem) for path in finished}
    waiting_since = time.monotonic()
    # The config is read again, since a run may be extended.
    while (last := int(run_folder.load_run(run_dir).total_steps)) not in done:
        waiting = [step for step in run_folder.steps(run_dir) if step not in done]
        if waiting:
            yield waiting[0]
            done.add(waiting[0])
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since < timeout:
            check_stop("waiting for a checkpoint")
            time.sleep(min(POLL_SECONDS, timeout))
        else:
            logging.warning(
                "No new checkpoint in %s for %.0f s; %s are done; step %d would be the last.",
                *(run_dir, timeout, sorted(done), last),
            )
            return
