"""The writer of TensorBoard files."""

import io
import itertools
import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np
import PIL.Image
from etils import epath
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from xmodal.core.config import flatten_section

_QUALITY = 60  # Of JPEG, where text is still sharp.
_FLUSH_SECONDS = 120.0  # A bucket stores the whole file again at each flush.
_files = itertools.count()


class EventWriter:
    """Writes a file of events, without TensorFlow, which takes seconds to import.

    TensorBoard's own `EventFileWriter` imports it where it is installed.

    All processes may call it; process 0 writes.
    """

    def __init__(self, folder: epath.PathLike) -> None:
        """Opens a new file in `folder`, which is created if missing."""
        self._records: RecordWriter | None = None
        self._flushed = time.monotonic()
        if jax.process_index() > 0:
            return
        folder = epath.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names.
        parts = f"{time.time():010.0f}", socket.gethostname(), str(os.getpid()), str(next(_files))
        path = folder / ".".join(("events.out.tfevents", *parts, "v2"))
        self._records = RecordWriter(path.open("wb"))
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Writes numbers by tag."""
        self._write_values(step, (scalar_pb(tag, float(x)) for tag, x in scalars.items()))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Writes texts in Markdown by tag."""
        self._write_values(step, (text_pb(tag, text) for tag, text in texts.items()))

    def write_histograms(self, step: int, values: Mapping[str, np.ndarray]) -> None:
        """Writes histograms of numbers by tag."""
        self._write_values(step, (histogram_pb(tag, x) for tag, x in values.items()))

    def write_pictures(self, step: int, pictures: Mapping[str, bytes]) -> None:
        """Writes encoded pictures by tag, for the IMAGES tab."""
        self._write_values(step, (_picture_pb(tag, data) for tag, data in pictures.items()))

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Shows settings with the last scalars of the same file, as a row of the HPARAMS tab.

        The row has the name of the file's folder, which may not be the folder that TensorBoard is
        started on, where it finds no scalars. With an id of a trial, it would show the mean over
        folders with the same id.
        """
        self._write_values(0, [hparams_pb(flat_config(settings), trial_id="")])

    def flush(self) -> None:
        """Makes everything written so far visible to readers."""
        self._flushed = time.monotonic()
        if self._records is not None:
            self._records.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._records is not None:
            self._records.close()

    def _write_values(self, step: int, summaries: Iterable[Summary]) -> None:
        for summary in summaries:
            self._write(Event(wall_time=time.time(), step=step, summary=summary))
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def _write(self, event: Event) -> None:
        if self._records is not None:
            self._records.write(event.SerializeToString())


def jpeg(picture: np.ndarray) -> bytes:
    """Encodes a picture, uint8 [H, W, 3], in a fifth of the bytes of a PNG file."""
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "JPEG", quality=_QUALITY, optimize=True)
    return file.getvalue()


def _picture_pb(tag: str, data: bytes) -> Summary:
    with PIL.Image.open(io.BytesIO(data)) as picture:
        width, height = picture.size
    values = np.array([b"%d" % width, b"%d" % height, data], object)
    summary = Summary()
    summary.value.add(
        tag=tag, metadata=create_summary_metadata(tag, ""), tensor=make_tensor_proto(values)
    )
    return summary


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`{"optimizer.learning_rate": 0.001}` from a nested config, values TensorBoard can show."""
    return {
        path: value if isinstance(value, bool | int | float | str) else str(value)
        for path, value in flatten_section(config).items()
        if not isinstance(value, Mapping)
    }
