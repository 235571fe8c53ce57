"""Embeds every unique item of a split once."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal import mesh as mesh_lib
from xmodal.evals.evaluators.evaluator import Split
from xmodal.evals.inputs.sources import Embeddings, Predictions
from xmodal.losses.similarity import Similarity, select_field
from xmodal.progress import progress

Batch = Mapping[str, np.ndarray]
# (side, params, model_state, columns of a batch) -> an object whose `.vector` is [B, D] or
# [B, K, D].
Embed = Callable[[str, Any, Any, Mapping[str, jax.Array]], Any]
# Parameters, images [L, D], captions [R, D] -> probabilities [L, R, C].
Predict = Callable[[Any, jax.Array, jax.Array], jax.Array]

# Side -> the column with the ids of its items.
_ID_COLUMNS = {"image": "image_id", "text": "caption_id"}
_NOUNS = {"image": "images", "text": "captions"}


class Items(Split, Protocol):
    """A split whose items can be read (`xmodal.data.EvalSplit` is one).

    Attributes:
      sides: those with items to embed, of "image" and "text".
      caption_texts: M texts.
    """

    sides: Collection[str]
    caption_texts: Sequence[str]

    def images(self, batch_size: int) -> Iterator[Batch]:
        """Yields columns of images with `image_id` [b], in the order of `image_ids`."""

    def captions(self, batch_size: int) -> Iterator[Batch]:
        """Yields columns of captions with `caption_id` [b], in the order of `caption_ids`."""


class Embedder:
    """Embeds splits with one model; every side is compiled once per batch size."""

    def __init__(
        self,
        embed: Embed,
        sides: Collection[str],
        *,
        similarity: Similarity,
        mesh: Mesh | None = None,
        predict: Mapping[str, Predict] | None = None,
    ) -> None:
        """Prepares the sides.

        Args:
          embed: pure function of the model.
          sides: that the model has, of "image" and "text".
          similarity: the model's, whose parameters are `params["similarity"]`.
          mesh: items are spread over its `data` axis.
          predict: task -> predictions for blocks of pairs, from `params`.
        """
        self._sides, self._similarity = tuple(sides), similarity
        self._mesh, self._predict = mesh, dict(predict or {})
        # Every process of a multi-host run receives all embeddings.
        everywhere = mesh_lib.replicated(mesh) if mesh is not None else None

        def embed_batch(
            side: str, field: str, params: Any, model_state: Any, columns: Any
        ) -> jax.Array:
            embedding = embed(side, params, model_state, columns)
            return select_field(embedding, field).astype(jnp.float32)

        self._embed = jax.jit(embed_batch, static_argnums=(0, 1), out_shardings=everywhere)

    def __call__(
        self,
        params: Any,
        model_state: Any,
        split: Items,
        batch_size: int,
        *,
        field: str = "vector",
    ) -> Embeddings:
        """Returns the embeddings of all items of a split, of the sides that it has.

        `batch_size` is that of a call over all devices, rounded up to a multiple of their number;
        `field` names the array of an embedding, see `SimilarityConfig`.

        Raises:
          ValueError: the items come in another order or number than the split's ids.
        """
        devices = self._mesh.shape["data"] if self._mesh is not None else 1
        batch_size = -(-batch_size // devices) * devices
        items = {
            "image": (split.images, split.image_ids),
            "text": (split.captions, split.caption_ids),
        }
        vectors: dict[str, np.ndarray] = {}
        for side in (each for each in self._sides if each in split.sides):
            read, wanted = items[side]
            batches = read(batch_size)
            what = f"Embedding {len(wanted):,} {_NOUNS[side]} of {split.name} {split.split}"
            with progress(what, len(wanted)) as advance:
                ids, vectors[side] = self._embed_side(
                    functools.partial(self._embed, side, field, params, model_state),
                    side,
                    batches,
                    batch_size,
                    advance,
                )
            if not np.array_equal(ids, wanted):
                raise ValueError(
                    f"The {side} items of {split.name} came in another order or number "
                    f"({len(ids)}) than their id list ({len(wanted)})."
                )
        learned = params["similarity"] if self._similarity.parameters else {}
        return Embeddings(
            place=f"{split.name} {split.split}",
            image_ids=np.asarray(split.image_ids, np.int64) if "image" in vectors else None,
            images=vectors.get("image"),
            caption_ids=np.asarray(split.caption_ids, np.int64) if "text" in vectors else None,
            captions=vectors.get("text"),
            similarity=self._similarity.name,
            parameters={key: float(learned[key]) for key in self._similarity.parameters},
            predictions=self._make_predictions(params, vectors),
        )

    def _make_predictions(
        self, params: Any, vectors: Mapping[str, np.ndarray]
    ) -> dict[str, Predictions]:
        if not {"image", "text"} <= set(vectors):
            return {}
        return {
            task: Predictions(vectors["image"], vectors["text"], functools.partial(predict, params))
            for task, predict in self._predict.items()
        }

    def _embed_side(
        self,
        embed: Callable[[Mapping[str, jax.Array]], jax.Array],
        side: str,
        batches: Iterator[Batch],
        batch_size: int,
        advance: Callable[[int], None],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids [N] and vectors [N, ...] of all items of a side."""
        ids, vectors, unread = [], [], None
        for batch in batches:
            size = len(batch[_ID_COLUMNS[side]])
            advance(size)
            ids.append(np.asarray(batch[_ID_COLUMNS[side]]))
            columns = {
                name: self._place(rows, batch_size)
                for name, rows in batch.items()
                if name not in _ID_COLUMNS.values()
            }
            embedded = embed(columns), size
            # Reading one batch late keeps the device busy and the queue of inputs short.
            if unread is not None:
                vectors.append(np.asarray(unread[0])[: unread[1]])
            unread = embedded
        if unread is None:
            raise ValueError(f"The split has no {side} to embed.")
        vectors.append(np.asarray(unread[0])[: unread[1]])
        return np.concatenate(ids), np.concatenate(vectors)

    def _place(self, rows: np.ndarray, batch_size: int) -> jax.Array:
        """Pads to the batch size, so that one shape is compiled, and spreads over the mesh."""
        # Repeating a real item keeps padding free of all-masked texts.
        missing = batch_size - len(rows)
        rows = np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1), mode="edge")
        if self._mesh is None:
            return jnp.asarray(rows)
        sharding = mesh_lib.batch_sharded(self._mesh)
        return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])
