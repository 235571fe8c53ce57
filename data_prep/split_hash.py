"""A hash of a split: equal for equal records whatever their order, shards or machine."""

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

_MODULUS = 2**256


class SplitHash:
    """Collects the examples of a split.

    The SHA-256 of every example is added up, so that the order does not matter and an example
    that comes twice still counts twice, and the sum is hashed together with the number of
    examples.

    Args:
      features: the features of the builder: text, images, and tensors of fixed or free length.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = sorted(features.items())
        self._count = 0
        self._sum = 0

    def add(self, example: Mapping[str, Any]) -> None:
        """Adds one example: as a builder yields it, or as stored with its image still encoded.

        Raises:
          UnicodeEncodeError: a text cannot be written as UTF-8.
        """
        digest = hashlib.sha256()
        for name, feature in self._features:
            digest.update(name.encode() + b"\0")
            _update(digest, feature, example[name])
        self._count += 1
        self._sum = (self._sum + int.from_bytes(digest.digest(), "big")) % _MODULUS

    def hexdigest(self) -> str:
        """The hash of what was added so far, 64 hexadecimal digits."""
        return hashlib.sha256(f"{self._count} {self._sum:064x}".encode()).hexdigest()


def stored_split_hash(builder: tfds.core.DatasetBuilder, split: str) -> str:
    """Reads a prepared split again and hashes it.

    Args:
      builder: of a prepared dataset.
      split: its name.

    Returns:
      What `builder.info.metadata["split_hashes"][split]` holds, unless a record has changed.
    """
    features = builder.info.features
    images = [name for name, feature in features.items() if _is_image(feature)]
    source = builder.as_data_source(
        split, decoders={name: tfds.decode.SkipDecoding() for name in images} or None
    )
    split_hash = SplitHash(features)
    for example in source:
        split_hash.add(example)
    return split_hash.hexdigest()


def _is_image(feature: Any) -> bool:
    return isinstance(feature, tfds.features.Image)


def _update(digest: Any, feature: Any, value: Any) -> None:
    """Adds one feature: its kind, its size, its bytes."""
    if isinstance(feature, tfds.features.Text):
        digest.update(b"text")
        _update_bytes(digest, _as_bytes(value))
    elif _is_image(feature):
        digest.update(b"image")
        _update_bytes(digest, value if isinstance(value, bytes) else value.getvalue())
    elif isinstance(feature, tfds.features.Tensor):
        _update_array(digest, np.asarray(value, feature.np_dtype))
    elif not isinstance(feature, tfds.features.Sequence):
        raise TypeError(f"{type(feature).__name__} has no canonical bytes; add them here")
    elif isinstance(feature.feature, tfds.features.Text):
        digest.update(b"texts" + struct.pack("<q", len(value)))
        for text in value:
            _update_bytes(digest, _as_bytes(text))
    else:
        array = np.asarray(value, feature.feature.np_dtype)
        # An empty list does not tell the shape of its items.
        _update_array(digest, array if array.size else array.reshape(0))


def _update_array(digest: Any, array: np.ndarray) -> None:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    digest.update(f"{array.dtype.name} {array.shape}\0".encode() + little.tobytes())


def _update_bytes(digest: Any, data: bytes) -> None:
    digest.update(struct.pack("<q", len(data)))
    digest.update(data)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8") if isinstance(text, str) else bytes(text)
