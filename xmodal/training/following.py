"""Waits for the checkpoints of a run that is still training."""

import time
from collections.abc import Iterator

from absl import logging
from etils import epath

from xmodal.training import checkpoints

POLL_SECONDS = 5.0


def follow(run_dir: str, output: str, *, last_step: int, timeout: float) -> Iterator[int]:
    """Yields the checkpoints not evaluated yet as they appear, oldest first.

    Ends after `last_step`, or when no new checkpoint came for `timeout` seconds.
    """
    done = {int(path.stem) for path in epath.Path(output).glob("steps/*.json")}
    waiting_since = time.monotonic()
    while last_step not in done:
        waiting = [step for step in checkpoints.steps(run_dir) if step not in done]
        if waiting:
            yield waiting[0]
            done.add(waiting[0])
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since < timeout:
            time.sleep(min(POLL_SECONDS, timeout))
        else:
            logging.warning(
                "No new checkpoint in %s for %.0f s; %s are done, step %d would be the last.",
                run_dir,
                timeout,
                sorted(done),
                last_step,
            )
            return
