"""The writer of TensorBoard files."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import PIL.Image

from xmodal.base.console import quietly
from xmodal.base.tensorflow_import import without_keras

if TYPE_CHECKING:
    from clu import metric_writers

_QUALITY = 60  # Of JPEG, where text is still sharp.


def make_writer(folder: str) -> "metric_writers.MetricWriter":
    """Opens a clu writer to TensorBoard files in `folder`, on process 0 only.

    TensorFlow is imported here because training needs it for nothing else.
    """
    with quietly(), without_keras():
        import tensorflow as tf
        from clu import metric_writers

        tf.config.set_visible_devices([], "GPU")  # Otherwise, it would take all of a GPU's memory.
        writers = [metric_writers.SummaryWriter(folder)] if jax.process_index() == 0 else []
    return metric_writers.AsyncMultiWriter(writers)


def write_pictures(
    writer: "metric_writers.MetricWriter", step: int, pictures: Mapping[str, np.ndarray]
) -> None:
    """Writes pictures, uint8 [H, W, 3] by tag, for TensorBoard's IMAGES tab.

    They are JPEG files, a fifth of the PNG files of `MetricWriter.write_images`.
    """
    from tensorboard.plugins.image.metadata import create_summary_metadata

    encoded, metadata = {}, {}
    for tag, picture in pictures.items():
        file = io.BytesIO()
        PIL.Image.fromarray(picture).save(file, "JPEG", quality=_QUALITY, optimize=True)
        height, width, _ = picture.shape
        encoded[tag] = np.array([b"%d" % width, b"%d" % height, file.getvalue()], object)
        metadata[tag] = create_summary_metadata(tag, "")
    writer.write_summaries(step, encoded, metadata=metadata)


def write_settings(writer: "metric_writers.MetricWriter", settings: Mapping[str, Any]) -> None:
    """Shows settings with the last scalars of the same writer, as a row of the HPARAMS tab.

    The row has the name of the writer's folder, which may not be the folder that TensorBoard is
    started on, where it finds no scalars. `MetricWriter.write_hparams` would name the row by a hash
    of the settings, and show the mean over folders with equal settings.
    """
    # Its module `api` has the same function, and imports Keras.
    from tensorboard.plugins.hparams import summary_v2

    (row,) = summary_v2.hparams_pb(flat_config(settings), trial_id="").value
    writer.write_summaries(0, {row.tag: np.float32(0)}, metadata={row.tag: row.metadata})


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`{"optimizer.learning_rate": 0.001}` from a nested config, values TensorBoard can show."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": v for inner, v in flat_config(value).items()}
        else:
            flat[key] = value if isinstance(value, bool | int | float | str) else str(value)
    return flat
