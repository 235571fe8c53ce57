"""Embeds every unique item of a split once."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.progress import progress
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.labels.split import Split
from xmodal.evals.scores.pair_scores import PairFunctions, PairProgram, PairScores, Tokens
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_rows import launch_ahead
from xmodal.evals.scores.sources import Embeddings, Predictions
from xmodal.similarity import Similarity, select_field

Batch = Mapping[str, np.ndarray]
# (modality, params, model_state, columns of a batch) -> an object whose `.vector` is [B, D] or
# [B, K, D] and whose `.log_sigma` is [B, D] or None.
Embed = Callable[[str, Any, Any, Mapping[str, jax.Array]], Any]

# Modality -> the column with the ids of its items.
_ID_COLUMNS = {modality: f"{kind}_id" for modality, kind in KINDS.items()}


class Predictor(NamedTuple):
    """A task that makes predictions about pairs.

    Attributes:
      modalities: the modalities that it reads, of "image" and "text".
      predict: (parameters, images [L, D] or None, captions [R, D] or None) -> probabilities
        [L, R, C]; L or R is 1 for a modality that is not read.
    """

    modalities: frozenset[str]
    predict: Callable[[Any, jax.Array | None, jax.Array | None], jax.Array]


class _Embedded(NamedTuple):
    """The kept arrays of the embeddings of N items, items first.

    Attributes:
      vectors: float32, the array that is ranked.
      log_sigma: float32, of a probabilistic model; or None.
      predicted: float32, the vectors, which predictors read, if another array is ranked; or None.
      tokens: tokens and mask, float32, for a similarity of token sets; or None.
      features: `Tokens` for a cross-encoder; or None.
    """

    vectors: Any
    log_sigma: Any = None
    predicted: Any = None
    tokens: Any = None
    features: Any = None


# Columns of a batch of one modality -> kept arrays.
_EmbedBatch = Callable[[Mapping[str, jax.Array]], _Embedded]


class Items(Split, Protocol):
    """A split whose items can be read (`xmodal.data.EvalSplit` is one).

    Attributes:
      modalities: modalities with items to embed, of "image" and "text".
      caption_texts: M strings.
      caption_lengths: int [M], padded length T of each caption; few distinct values.
    """

    modalities: Collection[str]
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
    """Embeds splits with one model; a modality is compiled once per batch size and text length.

    A batch has at most twice the items of the modality, so that a single query is not one of
    hundreds.

    Captions of similar length share batches. Padding is masked: it changes an embedding by at most
    float32 rounding.

    Attributes:
      mesh: items are sharded over its `data` axis; None for one device.
    """

    def __init__(
        self,
        embed: Embed,
        modalities: Collection[str],
        *,
        similarity: Similarity,
        mesh: Mesh | None = None,
        predict: Mapping[str, Predictor] | None = None,
        pairs: PairFunctions | None = None,
    ) -> None:
        """Prepares the modalities.

        Args:
          embed: the model's pure embedding function.
          modalities: modalities that the model has, of "image" and "text".
          similarity: the model's similarity, with parameters `params["similarity"]`.
          mesh: items are sharded over its `data` axis.
          predict: predictors by task.
          pairs: a cross-encoder, which reads the `features` of embeddings; None for none.
        """
        self._modalities, self._similarity = tuple(modalities), similarity
        self.mesh, self._predict = mesh, dict(predict or {})
        self._pairs = None if pairs is None else PairProgram(pairs, mesh)
        # Rows stay where they are computed: several batches are in progress, and collectives could
        # block all threads of a CPU.
        by_row = mesh_lib.batch_sharded(mesh) if mesh is not None else None

        def embed_batch(
            modality: str, field: str, params: Any, model_state: Any, columns: Any
        ) -> _Embedded:
            embedding = embed(modality, params, model_state, columns)
            extras, tokens, kept = getattr(embedding, "extras", {}), None, None
            if similarity.module is not None and "tokens" in extras:
                tokens = extras["tokens"], extras["mask"]
            if pairs is not None:
                features = extras["features"]
                kept = Tokens(features.tokens, features.full_mask(), dict(features.extras))
            predicted = embedding.vector if self._predict and field != "vector" else None
            ranked = select_field(embedding, field)
            single = _Embedded(ranked, embedding.log_sigma, predicted, tokens)
            single = jax.tree.map(lambda array: array.astype(jnp.float32), single)
            return single._replace(features=kept)

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
        """Returns the embeddings of all items of a split, for the modalities that it has.

        Every process reads and embeds its share and receives all embeddings. `batch_size` counts
        items per call over all devices, rounded up to a multiple of their number; fewer items are
        padded to the next power of two. `field` names the array of an embedding, see
        `SimilarityConfig`.

        Raises:
          ValueError: the order or number of the items differs from the request.
        """
        found = {
            modality: self._embed_modality(
                functools.partial(self._embed, modality, field, params, model_state),
                modality, split, batch_size,
            )
            for modality in self._modalities
            if modality in split.modalities
        }  # fmt: skip

        def collect(name: str) -> dict[str, Any]:
            return {modality: each[name] for modality, each in found.items() if name in each}

        vectors, features = collect("vectors"), collect("features")
        read = vectors | collect("predicted")
        return Embeddings(
            place=f"{split.name} {split.split}",
            image_ids=np.asarray(split.image_ids, np.int64) if "image" in vectors else None,
            images=vectors.get("image"),
            caption_ids=np.asarray(split.caption_ids, np.int64) if "text" in vectors else None,
            captions=vectors.get("text"),
            similarity=self._similarity.name,
            parameters=self._learned(params),
            predictions={
                task: Predictions(
                    read["image"] if "image" in each.modalities else None,
                    read["text"] if "text" in each.modalities else None,
                    functools.partial(each.predict, params),
                )
                for task, each in self._predict.items()
                if each.modalities <= set(read)
            },
            log_sigma=collect("log_sigma"),
            tokens=collect("tokens"),
            options=self._similarity.options,
            pairs=None
            if self._pairs is None or len(features) < len(_ID_COLUMNS)
            else PairScores(self._pairs, params, features["image"], features["text"]),
        )

    def _learned(self, params: Any) -> dict[str, Any]:
        """Parameters of the similarity on the host."""
        if self._similarity.module is None:
            learned = params["similarity"] if self._similarity.parameters else {}
            return {key: float(learned[key]) for key in self._similarity.parameters}
        learned = self._similarity.select_parameters(params.get("similarity", {}))
        learned = jax.tree.map(jnp.asarray, learned)
        return mesh_lib.to_host(learned, self.mesh) if self.mesh else jax.device_get(learned)

    def lower(
        self,
        modality: str,
        params: Any,
        model_state: Any,
        columns: Mapping[str, jax.ShapeDtypeStruct],
    ) -> jax.stages.Lowered:
        """Returns the function, not yet compiled, that embeds a batch of one modality.

        Args:
          modality: "image" or "text".
          params: arrays or shapes.
          model_state: arrays or shapes.
          columns: shapes and sharding of a batch.
        """
        field = self._similarity.config.field
        return self._embed.lower(modality, field, params, model_state, columns)

    def _group(self, modality: str, split: Items, batch_size: int) -> list["_Group"]:
        """All items of a split; captions by the length to which their batch is padded."""
        devices = self.mesh.shape["data"] if self.mesh is not None else 1
        processes = mesh_lib.process_count(self.mesh) if self.mesh is not None else 1
        if modality == "text":
            lengths = np.asarray(split.caption_lengths)
        else:
            lengths = np.zeros(len(split.image_ids), np.int32)
        # Few sizes, because each is compiled.
        batch_size = min(batch_size, 1 << max(len(lengths) - 1, 0).bit_length())
        batch_size = -(-batch_size // devices) * devices
        rows = np.argsort(lengths, kind="stable")
        ends = np.arange(len(rows)) // batch_size * batch_size + batch_size
        of_batch = lengths[rows[np.minimum(ends, len(rows)) - 1]]
        return [
            _Group(rows[of_batch == length], int(length), batch_size // processes, processes)
            for length in np.unique(of_batch)
        ]

    def _embed_modality(
        self, embed: _EmbedBatch, modality: str, split: Items, batch_size: int
    ) -> dict[str, Any]:
        """Embeds all items of a modality, group by group; the kept arrays in their order."""
        groups = self._group(modality, split, batch_size)
        count = sum(len(group.rows) for group in groups)
        what = f"Embedding {count:,} {KINDS[modality]}s of {split.title} {split.split}"
        with progress(what, count, jointly=True) as advance:
            parts = [self._embed_group(embed, modality, split, each, advance) for each in groups]
        order = np.argsort(np.concatenate([group.rows for group in groups]))

        kept: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])[order]
            for name in ("vectors", "log_sigma", "predicted")
            if getattr(parts[0], name) is not None
        }
        if parts[0].tokens is not None:
            tokens = [RaggedTokens.from_padded(*part.tokens) for part in parts]
            kept["tokens"] = RaggedTokens.join(tokens)[order]
        if parts[0].features is not None:
            found = zip(groups, parts, strict=True)
            kept["features"] = Tokens.join([(group.rows, part.features) for group, part in found])
        return kept

    def _embed_group(
        self,
        embed: _EmbedBatch,
        modality: str,
        split: Items,
        group: "_Group",
        advance: Callable[[int], None],
    ) -> _Embedded:
        """Embeds the items of a group, in its order."""
        own, size = group.own_rows(jax.process_index() if group.processes > 1 else 0), group.size
        if modality == "image":
            read = split.images(size, own)
        else:
            read = split.captions(size, own, group.length)
        ids = _ID_COLUMNS[modality]

        def launch(batch: Batch) -> _Embedded:
            advance(group.processes * len(batch[ids]))
            return embed({name: self._place(x, size) for name, x in batch.items() if name != ids})

        # Reading results one batch late also keeps the input queue short.
        found = launch_ahead(map(launch, read))
        batches = [jax.tree.map(mesh_lib.local_rows, each) for each in found]
        found = jax.tree.map(lambda *arrays: np.concatenate(arrays), *batches)
        if self.mesh is not None and group.processes > 1:
            found = mesh_lib.to_host(mesh_lib.global_batch(found, self.mesh), self.mesh)
        return jax.tree.map(lambda array: array[: len(group.rows)], found)

    def _place(self, rows: np.ndarray, size: int) -> jax.Array:
        """Pads this process's rows to a batch and shards them."""
        rows = mesh_lib.pad_rows(rows, size)
        if self.mesh is None:
            return jnp.asarray(rows)
        return mesh_lib.global_batch(rows, self.mesh)


class _Group(NamedTuple):
    """Items that are embedded in batches of one shape, each spread over all processes.

    Attributes:
      rows: positions [R] of the items in the split.
      length: length to which captions are padded; 0 for images.
      size: items per batch and process.
      processes: number of processes.
    """

    rows: np.ndarray
    length: int
    size: int
    processes: int

    def own_rows(self, index: int) -> np.ndarray:
        """Returns the rows that a process embeds.

        All processes call the model equally often, so those that have fewer rows repeat one: of the
        rows a..e in batches of 2 x 2, process 0 embeds a b, c d, and process 1 embeds e e, e.
        """
        count = self.size * -(-len(self.rows) // (self.processes * self.size))
        own = self.rows[index * count : (index + 1) * count]
        own = own if len(own) else self.rows[-1:]
        return mesh_lib.pad_rows(own, max(len(own), count - self.size + 1))
