"""Curves of a run for the page of its report, read from TensorBoard's files and evaluated.json."""

import struct
from collections.abc import Iterator

from etils import epath
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_ndarray

from xmodal.evals.reports.evaluation import Points
from xmodal.train.folder import run_folder

_LOSS = "train/loss"
_HEAD, _TAIL = 12, 4  # Bytes of a record's length with its checksum, and of its own checksum.


def read_curves(run_dir: str, metric: str) -> dict[str, Points]:
    """Returns tag -> points of the loss and of the metric that selects checkpoints.

    Steps that a resumed run repeated have their last values; a file whose end is missing is read as
    far as it goes.
    """
    losses: dict[int, float] = {}
    for path in sorted(epath.Path(run_dir).glob("events.out.tfevents.*")):
        for event in _read_events(path.read_bytes()):
            for each in (x for x in event.summary.value if x.tag == _LOSS):
                losses[event.step] = float(make_ndarray(each.tensor))
    evaluated = run_folder.load_evaluated(run_dir)
    selected = {step: each[metric] for step, each in evaluated.items() if metric in each}
    return {_LOSS: sorted(losses.items()), metric: sorted(selected.items())}


def _read_events(content: bytes) -> Iterator[Event]:
    """The complete records; TensorBoard's own readers import TensorFlow, which takes seconds."""
    at = 0
    while at + _HEAD <= len(content):
        end = at + _HEAD + struct.unpack_from("<Q", content, at)[0]
        if end <= len(content):
            yield Event.FromString(content[at + _HEAD : end])
        at = end + _TAIL
