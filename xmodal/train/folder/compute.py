"""Devices and batch size of each start of a run, in `RUN_DIR/compute.json`."""

import dataclasses
import json

from absl import logging
from etils import epath
from jax.sharding import Mesh

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

    @classmethod
    def of(cls, mesh: Mesh, *, step: int, batch_size: int, flops_per_step: float) -> "Compute":
        """Returns the entry for a mesh."""
        kind = mesh.devices.flat[0].device_kind
        return cls(step, batch_size, mesh.size, kind, flops_per_step)

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
    try:
        found = json.loads(path.read_text()) if path.exists() else []
        # Runs of older versions have only the last start, without its step.
        return [Compute(**each) for each in found] if isinstance(found, list) else []
    # Only the model card needs it, so the run continues.
    except (ValueError, TypeError, RecursionError):
        logging.warning("%s is damaged: devices and batch sizes of earlier starts are lost.", path)
        return []
