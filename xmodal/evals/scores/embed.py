"""Embeds every unique item of a split once."""

import collections
import functools
import operator
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
from xmodal.evals.scores.pair_scores import PairFunctions, PairProgram, PairScores
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


Kept = dict[str, Any]
"""Arrays of embedded items that are kept, items first.

`vectors` are ranked, float32; `log_sigma` is that of a probabilistic model; `predicted` are the
vectors that predictors read, if another array is ranked; `tokens` are for a similarity of token
sets, and `features` for a cross-encoder, see `pair_scores.Tokens`.
"""


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
      mesh: devices over which items are split; None for one device.
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
          mesh: see the class.
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
        ) -> Kept:
            embedding = embed(modality, params, model_state, columns)
            extras, ranked = getattr(embedding, "extras", {}), select_field(embedding, field)
            kept: Kept = {"vectors": ranked, "log_sigma": embedding.log_sigma}
            if self._predict and field != "vector":
                kept["predicted"] = embedding.vector
            if similarity.module is not None and "tokens" in extras:
                kept["tokens"] = extras["tokens"], extras["mask"]
            kept = jax.tree.map(lambda array: array.astype(jnp.float32), kept)
            if pairs is not None:
                read = extras["features"]
                kept["features"] = read.tokens, read.full_mask(), dict(read.extras)
            return kept

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
        """
        kept = collections.defaultdict[str, dict[str, Any]](dict)  # By name and modality.
        for modality in (each for each in self._modalities if each in split.modalities):
            embed = functools.partial(self._embed, modality, field, params, model_state)
            for name, each in self._embed_modality(embed, modality, split, batch_size).items():
                kept[name][modality] = each
        vectors, features = kept["vectors"], kept["features"]
        read = vectors | kept["predicted"]
        pairs = None
        if self._pairs is not None and len(features) == len(_ID_COLUMNS):
            pairs = PairScores(self._pairs, params, features["image"], features["text"])
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
            log_sigma=kept["log_sigma"],
            tokens=kept["tokens"],
            options=self._similarity.options,
            pairs=pairs,
        )

    def _learned(self, params: Any) -> dict[str, Any]:
        """Parameters of the similarity on the host."""
        learned = self._similarity.select_parameters(params.get("similarity", {}))
        if self._similarity.module is None:
            return {key: float(number) for key, number in learned.items()}
        return mesh_lib.to_host(jax.tree.map(jnp.asarray, learned), self.mesh)

    def lower(
        self, modality: str, params: Any, model_state: Any, columns: Any
    ) -> jax.stages.Lowered:
        """Returns the function, not yet compiled, that embeds a batch of "image" or "text".

        All are arrays or their shapes and sharding.
        """
        field = self._similarity.config.field
        return self._embed.lower(modality, field, params, model_state, columns)

    def _embed_modality(
        self, embed: Callable[..., Kept], modality: str, split: Items, batch_size: int
    ) -> Kept:
        """Embeds all items of a modality, in groups of one padded length; in their order."""
        mesh, ids, is_text = self.mesh, _ID_COLUMNS[modality], modality == "text"
        devices, processes, index = 1, 1, 0
        if mesh is not None:
            devices, processes = mesh.size, mesh_lib.process_count(mesh)
            index = jax.process_index() if processes > 1 else 0
        lengths = np.asarray(split.caption_lengths if is_text else np.zeros_like(split.image_ids))
        # Few sizes, because each is compiled.
        batch_size = min(batch_size, 1 << max(len(lengths) - 1, 0).bit_length())
        batch_size = -(-batch_size // devices) * devices
        size, rows = batch_size // processes, np.argsort(lengths, kind="stable")
        ends = np.arange(len(rows)) // batch_size * batch_size + batch_size
        of_batch, parts = lengths[rows[np.minimum(ends, len(rows)) - 1]], []

        def launch(batch: Batch) -> Kept:
            advance(processes * len(batch[ids]))
            columns = {n: mesh_lib.pad_rows(x, size) for n, x in batch.items() if n != ids}
            return embed(mesh_lib.global_batch(columns, mesh) if mesh else columns)

        what = f"Embedding {len(rows):,} {KINDS[modality]}s of {split.title} {split.split}"
        with progress(what, len(rows), jointly=True) as advance:
            for length in np.unique(of_batch).tolist():
                group = rows[of_batch == length]
                own = own_rows(group, size, processes, index)
                read = split.captions(size, own, length) if is_text else split.images(size, own)
                # Reading results one batch late also keeps the input queue short.
                found = launch_ahead(map(launch, read))
                batches = (jax.tree.map(mesh_lib.local_rows, each) for each in found)
                kept = jax.tree.map(lambda *arrays: np.concatenate(arrays), *batches)
                if processes > 1:
                    kept = mesh_lib.to_host(mesh_lib.global_batch(kept, mesh), mesh)
                kept = jax.tree.map(operator.itemgetter(slice(len(group))), kept)
                parts.append({k: _pack(x) for k, x in kept.items() if x is not None})
        if not is_text:  # One group in order, perhaps of large arrays.
            return parts[0]
        order = np.argsort(rows)
        return {name: _join([part[name] for part in parts])[order] for name in parts[0]}


def _pack(array: Any) -> Any:
    """An array, or tokens without their padding."""
    return RaggedTokens.from_padded(*array) if isinstance(array, tuple) else array


def _join(parts: Sequence[Any]) -> Any:
    """Arrays or tokens, one after the other."""
    is_ragged = isinstance(parts[0], RaggedTokens)
    return RaggedTokens.join(parts) if is_ragged else np.concatenate(parts)


def own_rows(rows: np.ndarray, size: int, processes: int, index: int) -> np.ndarray:
    """Returns the rows that a process embeds in batches of `size`.

    All processes call the model equally often, so those that have fewer rows repeat one: of the
    rows a..e in batches of 2 x 2, process 0 embeds a b, c d, and process 1 embeds e e, e.
    """
    count = size * -(-len(rows) // (processes * size))
    own = rows[index * count : (index + 1) * count]
    own = own if len(own) else rows[-1:]
    return mesh_lib.pad_rows(own, max(len(own), count - size + 1))
