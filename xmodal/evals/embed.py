"""Embeds every unique item of a split once."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal import mesh as mesh_lib
from xmodal.evals.inputs.sources import Embeddings, Predictions
from xmodal.evals.split import Split
from xmodal.losses.similarity import Similarity, select_field
from xmodal.progress import progress

Batch = Mapping[str, np.ndarray]
# (side, params, model_state, columns of a batch) -> an object whose `.vector` is [B, D] or
# [B, K, D] and whose `.log_sigma` is [B, D] or None.
Embed = Callable[[str, Any, Any, Mapping[str, jax.Array]], Any]

# Side -> the column with the ids of its items.
_ID_COLUMNS = {"image": "image_id", "text": "caption_id"}
_NOUNS = {"image": "images", "text": "captions"}
_VECTORS, _LOG_SIGMA = "vectors", "log_sigma"


class Predictor(NamedTuple):
    """A task that makes predictions about pairs.

    Attributes:
      sides: the sides that it reads, of "image" and "text".
      predict: (parameters, images [L, D] or None, captions [R, D] or None) -> probabilities
        [L, R, C]; L or R is 1 for a side that is not read.
    """

    sides: frozenset[str]
    predict: Callable[[Any, jax.Array | None, jax.Array | None], jax.Array]


class Items(Split, Protocol):
    """A split whose items can be read (`xmodal.data.EvalSplit` is one).

    Attributes:
      sides: sides with items to embed, of "image" and "text".
      caption_texts: M strings.
      caption_lengths: int [M], padded length T of each caption; few distinct values.
    """

    sides: Collection[str]
    caption_texts: Sequence[str]
    caption_lengths: np.ndarray

    @property
    def has_pictures(self) -> bool:
        """Whether `pictures` has any to return; a dataset of features does not."""

    def pictures(self, rows: np.ndarray) -> Sequence[bytes] | np.ndarray:
        """Returns the images at `rows` as encoded pictures, [R]."""

    def images(self, batch_size: int, rows: np.ndarray) -> Iterator[Batch]:
        """Yields columns of the images at `rows` with `image_id` [b], in this order."""

    def captions(self, batch_size: int, rows: np.ndarray, length: int) -> Iterator[Batch]:
        """Yields columns of the captions at `rows`, [b, length], with `caption_id` [b]."""


class Embedder:
    """Embeds splits with one model; a side is compiled once per batch size and text length.

    Captions of similar length share batches. Padding is masked: it changes an embedding by at most
    float32 rounding.
    """

    def __init__(
        self,
        embed: Embed,
        sides: Collection[str],
        *,
        similarity: Similarity,
        mesh: Mesh | None = None,
        predict: Mapping[str, Predictor] | None = None,
    ) -> None:
        """Prepares the sides.

        Args:
          embed: the model's pure embedding function.
          sides: sides that the model has, of "image" and "text".
          similarity: the model's similarity, with parameters `params["similarity"]`.
          mesh: items are sharded over its `data` axis.
          predict: predictors by task.
        """
        self._sides, self._similarity = tuple(sides), similarity
        self._mesh, self._predict = mesh, dict(predict or {})
        # Rows stay where they are computed: several batches are in progress, and collectives could
        # deadlock, see `ranking.counting`.
        by_row = mesh_lib.batch_sharded(mesh) if mesh is not None else None

        def embed_batch(
            side: str, field: str, params: Any, model_state: Any, columns: Any
        ) -> dict[str, jax.Array]:
            embedding = embed(side, params, model_state, columns)
            found = {_VECTORS: select_field(embedding, field)}
            if embedding.log_sigma is not None:
                found[_LOG_SIGMA] = embedding.log_sigma
            return {name: array.astype(jnp.float32) for name, array in found.items()}

        self._embed = jax.jit(embed_batch, static_argnums=(0, 1), out_shardings=by_row)

    def __call__(
        self,
        params: Any,
        model_state: Any,
        split: Items,
        batch_size: int,
        *,
        field: str = "vector",
    ) -> Embeddings:
        """Returns the embeddings of all items of a split, for the sides that it has.

        Every process reads and embeds its share and receives all embeddings. `batch_size` counts
        items per call over all devices, rounded up to a multiple of their number; `field` names
        the array of an embedding, see `SimilarityConfig`.

        Raises:
          ValueError: the order or number of the items differs from what was requested.
        """
        devices = self._mesh.shape["data"] if self._mesh is not None else 1
        batch_size = -(-batch_size // devices) * devices
        vectors: dict[str, np.ndarray] = {}
        log_sigma: dict[str, np.ndarray] = {}
        for side in (each for each in self._sides if each in split.sides):
            plan = _plan(side, split, batch_size)
            if not plan:
                raise ValueError(f"The split has no {side} to embed.")
            embed = functools.partial(self._embed, side, field, params, model_state)
            count = sum(len(rows) for _, rows in plan)
            what = f"Embedding {count:,} {_NOUNS[side]} of {split.name} {split.split}"
            with progress(what, count) as advance:
                parts = [
                    self._embed_rows(embed, side, split, rows, length, batch_size, advance)
                    for length, rows in plan
                ]
            for name, found in ((_VECTORS, vectors), (_LOG_SIGMA, log_sigma)):
                if name in parts[0]:
                    found[side] = np.empty((count, *parts[0][name].shape[1:]), np.float32)
                    for (_, rows), part in zip(plan, parts, strict=True):
                        found[side][rows] = part[name]
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
            log_sigma=log_sigma,
        )

    def lower(
        self, side: str, params: Any, model_state: Any, columns: Mapping[str, jax.ShapeDtypeStruct]
    ) -> jax.stages.Lowered:
        """Returns the function, not yet compiled, that embeds a batch of one side.

        Args:
          side: "image" or "text".
          params: arrays or shapes.
          model_state: arrays or shapes.
          columns: shapes and sharding of a batch.
        """
        field = self._similarity.config.field
        return self._embed.lower(side, field, params, model_state, columns)

    def _make_predictions(
        self, params: Any, vectors: Mapping[str, np.ndarray]
    ) -> dict[str, Predictions]:
        return {
            task: Predictions(
                vectors["image"] if "image" in each.sides else None,
                vectors["text"] if "text" in each.sides else None,
                functools.partial(each.predict, params),
            )
            for task, each in self._predict.items()
            if each.sides <= set(vectors)
        }

    def _embed_rows(
        self,
        embed: Callable[[Mapping[str, jax.Array]], dict[str, jax.Array]],
        side: str,
        split: Items,
        rows: np.ndarray,
        length: int | None,
        batch_size: int,
        advance: Callable[[int], None],
    ) -> dict[str, np.ndarray]:
        """Arrays [R, ...] of the items at `rows`; captions are padded to `length`."""
        processes = mesh_lib.process_count(self._mesh) if self._mesh is not None else 1
        size = batch_size // processes
        own = _own_rows(rows, batch_size, processes)
        read = split.images(size, own) if side == "image" else split.captions(size, own, length)
        ids, batches, unread = [], [], None
        for batch in read:
            advance(processes * len(batch[_ID_COLUMNS[side]]))
            ids.append(np.asarray(batch[_ID_COLUMNS[side]]))
            columns = {
                name: self._place(values, size)
                for name, values in batch.items()
                if name not in _ID_COLUMNS.values()
            }
            embedded = embed(columns)
            # Reading results one batch late keeps the device busy and the input queue short.
            if unread is not None:
                batches.append(jax.tree.map(mesh_lib.local_rows, unread))
            unread = embedded
        batches.append(jax.tree.map(mesh_lib.local_rows, unread))
        wanted = np.asarray(split.image_ids if side == "image" else split.caption_ids)[own]
        if not np.array_equal(np.concatenate(ids), wanted):
            raise ValueError(
                f"The {side} items of {split.name} came in a different order or number than "
                "asked for."
            )
        found = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        if processes > 1:
            found = mesh_lib.to_host(mesh_lib.global_batch(found, self._mesh), self._mesh)
        # Reorders rows from process by process to batch by batch.
        blocks = {
            name: array.reshape(processes, -1, size, *array.shape[1:]).swapaxes(0, 1)
            for name, array in found.items()
        }
        return {
            name: array.reshape(-1, *array.shape[3:])[: len(rows)] for name, array in blocks.items()
        }

    def _place(self, rows: np.ndarray, size: int) -> jax.Array:
        """Pads this process's rows, so that one shape is compiled, and shards them."""
        # Repeating a real item avoids fully masked texts in the padding.
        missing = size - len(rows)
        rows = np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1), mode="edge")
        if self._mesh is None:
            return jnp.asarray(rows)
        return mesh_lib.global_batch({"rows": rows}, self._mesh)["rows"]


def _plan(side: str, split: Items, batch_size: int) -> list[tuple[int | None, np.ndarray]]:
    """The positions of all items; captions are grouped by their padded length."""
    if side == "image":
        return [(None, np.arange(len(split.image_ids)))] if len(split.image_ids) else []
    lengths = np.asarray(split.caption_lengths)
    rows = np.argsort(lengths, kind="stable")
    last = np.minimum(np.arange(len(rows)) // batch_size * batch_size + batch_size, len(rows)) - 1
    of_batch = lengths[rows[last]]
    return [(int(length), rows[of_batch == length]) for length in np.unique(of_batch)]


def _own_rows(rows: np.ndarray, batch_size: int, processes: int) -> np.ndarray:
    """This process's block of every batch; at least one row, since all call the model."""
    size = batch_size // processes
    index = jax.process_index() if processes > 1 else 0
    blocks = [
        rows[start + index * size : start + (index + 1) * size]
        for start in range(0, len(rows), batch_size)
    ]
    return np.concatenate([*blocks[:-1], blocks[-1] if len(blocks[-1]) else rows[-1:]])
