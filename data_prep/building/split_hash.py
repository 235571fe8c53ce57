"""A hash of a split that depends only on its records, not on their order, shards or the machine."""

import hashlib
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

_MODULUS = 2**256
_SIZE = struct.Struct("<q")


class SplitHash:
    """Collects the examples of a split.

    The SHA-256 hashes of all examples are summed, so that the order does not matter and an example
    that appears twice counts twice; the sum is hashed together with the number of examples.

    Args:
      features: the features of the builder: text, images, and tensors of fixed or free length.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._encoders = [
            (name, name.encode() + b"\0", _encoder(feature))
            for name, feature in sorted(features.items())
        ]
        self._count = 0
        self._sum = 0

    def add(self, example: Mapping[str, Any]) -> None:
        """Adds one example: as a builder yields it, or as stored with its image still encoded.

        Raises:
          UnicodeEncodeError: a text cannot be encoded as UTF-8.
        """
        self.add_digest(self.digest(example))

    def digest(self, example: Mapping[str, Any]) -> bytes:
        """Returns the SHA-256 of one example without adding it; see `add`."""
        parts: list[bytes] = []
        for name, label, encode in self._encoders:
            parts += (label, encode(example[name]))
        return hashlib.sha256(b"".join(parts)).digest()

    def add_digest(self, digest: bytes) -> None:
        """Adds an example by its SHA-256."""
        self._count += 1
        self._sum = (self._sum + int.from_bytes(digest, "big")) % _MODULUS

    def hexdigest(self) -> str:
        """The hash of all examples added so far, 64 hexadecimal digits."""
        return hashlib.sha256(f"{self._count} {self._sum:064x}".encode()).hexdigest()


def _encoder(feature: Any) -> Callable[[Any], bytes]:
    """Returns a function that serializes a feature's values; different values give other bytes."""
    if isinstance(feature, tfds.features.Text):
        return lambda text: _sized(_as_bytes(text))
    if isinstance(feature, tfds.features.Image):
        return lambda image: _sized(image if isinstance(image, bytes) else image.getvalue())
    if isinstance(feature, tfds.features.Tensor):
        return _array_encoder(feature.np_dtype, len(feature.shape))
    if isinstance(feature.feature, tfds.features.Text):
        return lambda texts: b"".join(
            [_SIZE.pack(len(texts)), *(_sized(_as_bytes(text)) for text in texts)]
        )
    return _array_encoder(feature.feature.np_dtype, 1 + len(feature.feature.shape))


def _array_encoder(dtype: Any, axes: int) -> Callable[[Any], bytes]:
    stored = np.dtype(dtype).newbyteorder("<")
    kind, shape = f"{stored.name} {axes}\0".encode(), struct.Struct(f"<{axes}q")

    def encode(value: Any) -> bytes:
        array = np.asarray(value, stored)
        if not array.size:  # An empty list does not determine the shape of its items.
            array = array.reshape([0] * axes)
        return b"".join((kind, shape.pack(*array.shape), array.tobytes()))

    return encode


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8") if isinstance(text, str) else bytes(text)
