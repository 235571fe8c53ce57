"""Opens prepared datasets without building them, and reads them column by column."""

import contextlib
import itertools
from collections.abc import Collection, Iterator

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

import data_prep
from data_prep.reading.example_records import read_values, stack
from xmodal.core.errors import UnexpectedFilesError, UserError

_BLOCK = 4096  # Number of records to read at a time.


class NotPreparedError(UserError):
    """A dataset has not been built."""


def open_prepared(dataset: str, config: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Opens a prepared dataset and never builds one.

    Raises:
      NotPreparedError: it does not exist; the message has the command that prepares it.
    """
    with _without_warnings():
        builder = data_prep.builder_class(dataset)(config=config, data_dir=data_dir)
        is_prepared = builder.is_prepared()
    if not is_prepared:
        raise NotPreparedError(
            f"{dataset}/{config} is not prepared in {builder.data_dir}; run "
            f"python -m data_prep.build --dataset={dataset} --config={config}"
        )
    return builder


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Silences TFDS's warnings about configs that are not prepared."""
    # `set_verbosity` would set a level even if none was set before.
    logger = logging.get_absl_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


def open_configs(
    dataset: str, config: str | None, data_dir: str | None
) -> list[tfds.core.DatasetBuilder]:
    """Opens one builder config of a dataset, or for None all that are prepared and not empty.

    Raises:
      NotPreparedError: there is none; the message has the command that prepares it.
    """
    if config:
        return [open_prepared(dataset, config, data_dir)]
    found = []
    for name in data_prep.builder_class(dataset).builder_configs:
        with contextlib.suppress(NotPreparedError):
            found.append(open_prepared(dataset, name, data_dir))
    found = [builder for builder in found if builder.info.splits]
    if not found:
        raise NotPreparedError(
            f"no config of {dataset} is prepared in {data_dir or 'the folder of TFDS'}; run "
            f"python -m data_prep.build --dataset={dataset}"
        )
    return found


def read_columns(
    builder: tfds.core.DatasetBuilder, split: str, names: Collection[str]
) -> dict[str, np.ndarray | list[np.ndarray]]:
    """Reads single features and sequences of strings and numbers.

    Args:
      builder: builder of a prepared dataset.
      split: name of the split.
      names: names of the requested features; those that the dataset lacks are left out.

    Returns:
      Feature -> its values [N] (numbers int64 or float32, strings as bytes), or, for sequences, a
      list with the values of every record.

    Raises:
      UnexpectedFilesError: the dataset has no such split; the known ones are listed.
    """
    known = dict(builder.info.features.items())
    if split not in builder.info.splits:
        raise UnexpectedFilesError(
            f"{builder.name}/{builder.builder_config.name} has no split {split!r}; known: "
            f"{', '.join(builder.info.splits)}"
        )
    wanted = {name: known[name] for name in names if name in known}
    sequences = {
        name for name, feature in wanted.items() if isinstance(feature, tfds.features.Sequence)
    }
    dtypes = {
        name: np.dtype(feature.feature.np_dtype if name in sequences else feature.np_dtype)
        for name, feature in wanted.items()
    }
    source = builder.as_data_source(
        split, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES
    ).data_source
    blocks = (range(n, min(n + _BLOCK, len(source))) for n in range(0, len(source), _BLOCK))
    records = itertools.chain.from_iterable(map(source.__getitems__, blocks))
    return {
        name: np.split(values, np.cumsum(lengths)[:-1])
        if name in sequences
        else stack(values, lengths, ())
        for name, (values, lengths) in read_values(records, dtypes).items()
    }
