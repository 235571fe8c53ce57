"""The writer of TensorBoard files.

The descriptions of scalars are in scalars.toml.
"""

import fnmatch
import functools
import io
import pathlib
import re
import socket
import time
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import jax
import numpy as np
import PIL.Image
from etils import epath
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_metadata
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from xmodal.train.loggers import Service

_FLUSH_SECONDS = 120.0  # A bucket stores the whole file again at each flush.


class EventWriter:
    """Writes a file of events, on process 0 only; services also get its scalars and pictures.

    TensorBoard's own `EventFileWriter` imports TensorFlow where it is installed, which takes
    seconds.
    """

    def __init__(self, folder: epath.PathLike | None, services: Collection[Service] = ()) -> None:
        """Opens a new file in `folder`, which is created if missing; None for no file."""
        self._services, self._records = services, None
        if folder is not None and jax.process_index() == 0:
            folder = epath.Path(folder)
            folder.mkdir(parents=True, exist_ok=True)
            # TensorBoard reads files in the order of their names.
            name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.v2"
            self._records = RecordWriter((folder / name).open("wb"))
            first = Event(wall_time=time.time(), file_version="brain.Event:2")
            self._records.write(first.SerializeToString())
        self.flush()

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Writes numbers by tag."""
        for each in self._services:
            each.write_scalars(step, scalars)
        self._write(step, (scalar_pb(t, float(x), describe(t)) for t, x in scalars.items()))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Writes texts in Markdown by tag."""
        self._write(step, (text_pb(tag, text) for tag, text in texts.items()))

    def write_histograms(self, step: int, values: Mapping[str, np.ndarray]) -> None:
        """Writes histograms of numbers by tag."""
        self._write(step, (histogram_pb(tag, x) for tag, x in values.items()))

    def write_pictures(self, step: int, pictures: Mapping[str, bytes]) -> None:
        """Writes encoded pictures by tag."""
        for each in self._services:
            each.write_pictures(step, pictures)
        self._write(step, (_picture_pb(tag, data) for tag, data in pictures.items()))

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Shows settings with the last scalars of the same file, as a row of the HPARAMS tab.

        The row has the name of the file's folder. With an id of a trial, it would show the mean
        over folders with the same id.
        """
        self._write(0, [hparams_pb(dict(settings), trial_id="")])

    def write_layout(self, selection: str, directions: Collection[str]) -> None:
        """Writes the page of the main metrics for the CUSTOM SCALARS tab.

        It has the loss, the metric that selects checkpoints, R@1, and the learning rate.

        Args:
          selection: the tag that selects checkpoints.
          directions: the directions of R@1.
        """
        charts = {"loss": "train/loss$", selection: f"{re.escape(selection)}$"}
        charts |= {f"R@1 {each}": f".*/{each}/recall@1$" for each in directions}
        category, summary = layout_pb2.Category(title="Main metrics"), Summary()
        for title, pattern in (charts | {"learning rate": "train/learning_rate$"}).items():
            category.chart.add(title=title).multiline.tag.append(pattern)
        content = make_tensor_proto(layout_pb2.Layout(category=[category]).SerializeToString())
        metadata = layout_metadata.create_summary_metadata()
        summary.value.add(tag=layout_metadata.CONFIG_SUMMARY_TAG, metadata=metadata, tensor=content)
        self._write(0, [summary])

    def flush(self) -> None:
        """Makes everything written so far visible to readers."""
        self._flushed = time.monotonic()
        if self._records is not None:
            self._records.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._records is not None:
            self._records.close()

    def _write(self, step: int, summaries: Iterable[Summary]) -> None:
        if self._records is None:
            return
        for each in summaries:
            event = Event(wall_time=time.time(), step=step, summary=each)
            self._records.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()


@functools.cache
def describe(tag: str) -> str:
    """Returns the description of a scalar, in Markdown; "" if it has none."""
    text = pathlib.Path(__file__).with_name("scalars.toml").read_text(encoding="utf-8")
    known = tomllib.loads(text).items()
    return next((about for name, about in known if fnmatch.fnmatch(tag, f"*{name}")), "")


def _picture_pb(tag: str, data: bytes) -> Summary:
    with PIL.Image.open(io.BytesIO(data)) as picture:
        values = [b"%d" % picture.width, b"%d" % picture.height, data]
    tensor, summary = make_tensor_proto(np.array(values, object)), Summary()
    summary.value.add(tag=tag, metadata=create_summary_metadata(tag, ""), tensor=tensor)
    return summary
