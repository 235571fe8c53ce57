"""TensorFlow checkpoints; tensorflow is imported only when one is read."""

import collections
import re

import numpy as np
from etils import epath

from xmodal.core.errors import UserError

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
# The default name of a tf.Variable.
_NAMELESS = re.compile(r"Variable(_\d+)?")


def read_checkpoint(prefix: epath.Path) -> dict[str, np.ndarray]:
    """Returns all numeric arrays of a checkpoint.

    Args:
      prefix: common start of the names of its files.

    Returns:
      {name: array}. Object-based checkpoints name every array by its place in the tree of objects;
      here it has the name of its variable, unless another array has the same name.

    Raises:
      UserError: a file is damaged.
    """
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(str(prefix))
        types = reader.get_variable_to_dtype_map()
        keys = [
            key
            for key, dtype in types.items()
            if dtype != tf.string and "OPTIMIZER_SLOT" not in key
        ]
        arrays = {key: np.asarray(reader.get_tensor(key)) for key in keys}
        graph = reader.get_tensor(_GRAPH) if _GRAPH in types else None
    except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:
        raise UserError(
            f"The checkpoint {prefix} cannot be read ({str(error).splitlines()[0]}): it is damaged "
            "or truncated; download it again."
        ) from error
    if graph is None:
        return arrays
    places = {key: key.removesuffix(_VALUE) for key in arrays}
    names = {key: name for key, name in _readable_names(graph).items() if key in arrays}
    counts = collections.Counter((places | names).values())
    names = {key: name for key, name in names.items() if counts[name] == 1}
    return {(places | names)[key]: array for key, array in arrays.items()}


def _readable_names(graph: bytes) -> dict[str, str]:
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    values = [value for node in nodes for value in node.attributes]
    return {
        value.checkpoint_key: value.full_name
        for value in values
        if value.full_name and not _NAMELESS.fullmatch(value.full_name)
    }
