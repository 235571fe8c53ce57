"""Devices and batch size of each start of a run, in `RUN_DIR/compute.json`."""

import dataclasses
import json

from etils import epath

from xmodal.core import processes
from xmodal.core.atomic import write_atomically

_FILE = "compute.json"


@dataclasses.dataclass(frozen=True)
class Compute:
    """Devices and batch size of a run, from one step on.

    Attributes:
      step: first step made with them.
      batch_size: global batch size.
      devices: number of devices.
      kind: as JAX names it.
      flops_per_step: FLOPs on one device, as the compiler counts them; 0 if it does not. If batches
        have texts of several lengths, those of the longest.
    """

    step: int
    batch_size: int
    devices: int
    kind: str
    flops_per_step: float

    def save(self, run_dir: str) -> None:
        """Adds a start to the run's folder, unless nothing has changed; on process 0.

        Steps that are repeated count for this start only.
        """
        if processes.index() > 0:
            return
        before = [each for each in read_starts(run_dir) if each.step < self.step]
        if not before or dataclasses.replace(before[-1], step=self.step) != self:
            before.append(self)
        text = json.dumps([dataclasses.asdict(each) for each in before], indent=2)
        write_atomically(epath.Path(run_dir) / _FILE, f"{text}\n")


def read_starts(run_dir: str) -> list[Compute]:
    """Returns the devices and batch sizes of a run, earliest first."""
    path = epath.Path(run_dir) / _FILE
    return [Compute(**each) for each in json.loads(path.read_text())] if path.exists() else []
