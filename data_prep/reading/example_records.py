"""Values of serialized `tf.train.Example`s, without TensorFlow, which takes seconds to import."""

from collections.abc import Iterable, Mapping

import numpy as np
from tensorflow_datasets.proto import tf_example_pb2

# Kind of a dtype -> the list of the record that holds such values, and their dtype there.
_LISTS = {"O": ("bytes_list", np.dtype(object)), "f": ("float_list", np.dtype(np.float32))}
_INTEGERS = ("int64_list", np.dtype(np.int64))


def read_values(
    records: Iterable[bytes], dtypes: Mapping[str, np.dtype]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Reads features of records.

    Args:
      records: N serialized examples.
      dtypes: feature -> its dtype; object for bytes.

    Returns:
      Feature -> its values of all records one after another, object, float32 or int64 [V] as
      stored, and the number of values in each record, int64 [N].

    Raises:
      google.protobuf.message.DecodeError: a record is not an example.
    """
    stored = {name: _LISTS.get(dtype.kind, _INTEGERS) for name, dtype in dtypes.items()}
    values: dict[str, list] = {name: [] for name in dtypes}
    lengths: dict[str, list[int]] = {name: [] for name in dtypes}
    for record in records:
        features = tf_example_pb2.Example.FromString(record).features.feature
        for name, (kind, _) in stored.items():
            found = getattr(features[name], kind).value
            values[name].extend(found)
            lengths[name].append(len(found))
    return {
        name: (np.array(values[name], dtype), np.array(lengths[name], np.int64))
        for name, (_, dtype) in stored.items()
    }


def stack(values: np.ndarray, lengths: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns values of `read_values` as [N, *shape].

    Raises:
      ValueError: a record has another number of values.
    """
    return values.reshape(len(lengths), *shape)
