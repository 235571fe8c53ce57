"""TensorFlow checkpoints; tensorflow is imported only when one is read."""

import collections
import re

import numpy as np
from etils import epath

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
    """
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    types = reader.get_variable_to_dtype_map()
    keys = [
        key for key, dtype in types.items() if dtype != tf.string and "OPTIMIZER_SLOT" not in key
    ]
    arrays = {key: np.asarray(reader.get_tensor(key)) for key in keys}
    names = {key: key.removesuffix(_VALUE) for key in keys}
    if _GRAPH in types:
        found = _readable_names(reader.get_tensor(_GRAPH))
        readable = {key: name for key, name in found.items() if key in names}
        counts = collections.Counter((names | readable).values())
        names |= {key: name for key, name in readable.items() if counts[name] == 1}
    return {names[key]: array for key, array in arrays.items()}


def _readable_names(graph: bytes) -> dict[str, str]:
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    values = [value for node in nodes for value in node.attributes]
    return {
        value.checkpoint_key: value.full_name
        for value in values
        if value.full_name and not _NAMELESS.fullmatch(value.full_name)
    }
