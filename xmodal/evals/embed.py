"""Embeds every unique item once."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Model(Protocol):
    """What evaluation needs of a dual encoder (`xmodal.models.DualEncoder` is one).

    Attributes:
      towers: keyed by "image" and "text"; one may be missing.
      similarity: name in `xmodal.losses.similarity.SIMILARITIES`.
    """

    towers: Mapping[str, Any]
    similarity: str

    def embed(self, name: str, params: Any, model_state: Any, inputs: Any) -> tuple[Any, Any]:
        """Returns an object with the embeddings as `.vector` [B, D], and the tower's state."""


@dataclasses.dataclass(frozen=True)
class Embedded:
    """The embeddings of one gallery.

    Attributes:
      ids: int32 [N].
      vectors: float32 [N, D].
    """

    ids: np.ndarray
    vectors: np.ndarray


# Tower -> the batch entry with the ids of its items.
_ID_KEYS = {"image": "image_id", "text": "caption_id"}


class Embedder:
    """Runs the towers of a model; each is compiled once for the life of this object."""

    def __init__(self, model: Model, *, batch_size: int, mesh: Mesh | None = None) -> None:
        """Prepares the towers.

        Args:
          model: the dual encoder.
          batch_size: items per call; rounded up to a multiple of the devices.
          mesh: items are spread over its `data` axis.
        """
        devices = mesh.shape["data"] if mesh is not None else 1
        self.batch_size = -(-batch_size // devices) * devices
        self._mesh = mesh
        # Every process of a multi-host run receives all embeddings.
        everywhere = NamedSharding(mesh, PartitionSpec()) if mesh is not None else None

        def make_embed(name: str) -> Any:
            def embed(params: Any, model_state: Any, inputs: Any) -> jax.Array:
                return model.embed(name, params, model_state, inputs)[0].vector.astype(jnp.float32)

            return jax.jit(embed, out_shardings=everywhere)

        self._embed = {name: make_embed(name) for name in model.towers}

    def embed_items(
        self,
        name: str,
        params: Any,
        model_state: Any,
        batches: Iterable[Mapping[str, np.ndarray]],
    ) -> Embedded:
        """Embeds all items of one kind.

        Args:
          name: tower, "image" or "text".
          params: parameters of all towers.
          model_state: state of all towers.
          batches: dicts of `image` and `image_id`, or of `text_ids`, `text_mask` and
            `caption_id`, with at most `batch_size` rows; a short one is padded.
        """
        ids, vectors, unread = [], [], None
        for batch in batches:
            size = len(batch[_ID_KEYS[name]])
            ids.append(np.asarray(batch[_ID_KEYS[name]], np.int32))
            if name == "image":
                inputs = self._place(batch["image"])
            else:
                inputs = {key: self._place(batch[key]) for key in ("text_ids", "text_mask")}
            embedded = self._embed[name](params, model_state, inputs), size
            # Reading one batch late keeps the device busy and the queue of inputs short.
            if unread is not None:
                vectors.append(np.asarray(unread[0])[: unread[1]])
            unread = embedded
        if unread is None:
            raise ValueError(
                f"There is nothing to embed with the {name} tower: the split is empty."
            )
        vectors.append(np.asarray(unread[0])[: unread[1]])
        return Embedded(np.concatenate(ids), np.concatenate(vectors))

    def _place(self, rows: np.ndarray) -> jax.Array:
        """Pads to the batch size, so that one shape is compiled, and spreads over the mesh."""
        missing = self.batch_size - len(rows)
        # Repeating a real item keeps padding free of all-masked texts.
        rows = np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1), mode="edge")
        if self._mesh is None:
            return jnp.asarray(rows)
        sharding = NamedSharding(self._mesh, PartitionSpec("data"))
        return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])
