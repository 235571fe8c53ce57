"""The context of a loss: its inputs besides the embeddings, made by the training step."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.config import Bounds
from xmodal.core.errors import UserError
from xmodal.losses import engine as engines
from xmodal.losses.terms import NOT_BELOW, Term
from xmodal.similarity import Embedding, Prepared, Similarity

PairLogits = Callable[[jax.Array | None, jax.Array, jax.Array], jax.Array]
"""(positions of images [I] or None for all B, positions of texts [I, J], key) -> logits [I, J, 2].

Text j of row i is paired with image i; the classes are "no match" and "match".
"""


@dataclasses.dataclass(frozen=True)
class Context:
    """Inputs of a loss besides the embeddings of its views.

    Attributes:
      ids: int32 [B]; items i and j of the two sides are negatives of each other if
        ids[i] != ids[j]. So a pair is never its own negative.
      similarity: how the two views are compared.
      similarity_params: its learned parameters.
      columns: batch columns that the task names in `inputs`, [B, ...].
      outputs: outputs of the task's module for this batch.
      key: random key of this task and step.
      step: int32 scalar.
      mesh: device mesh of the batch; None on one device.
      pair_logits: logits of the model's cross-encoder, see `PairLogits`; None without one.
      mined: two more images and texts, ((image, text), (image, text)), B items each, for a loss of
        mined negatives, see `data.mined_negatives.MinedNegatives.draw`; else ().
    """

    ids: jax.Array
    similarity: Similarity
    similarity_params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, jax.Array] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, jax.Array] = dataclasses.field(default_factory=dict)
    key: Any = None
    step: jax.Array | None = None
    mesh: Mesh | None = None
    pair_logits: Any = None
    mined: tuple[tuple[Embedding, Embedding], ...] = ()

    def prepare(self, left: Embedding, right: Embedding) -> tuple[Prepared, Prepared]:
        """Returns the items of both views prepared, see `Similarity.prepare_both`."""
        return self.similarity.prepare_both(left, right, self.similarity_params)

    def paired(self, left: Prepared, right: Prepared) -> jax.Array:
        """Returns the logits [B] of item i with item i, see `Similarity.paired`."""
        return self.similarity.paired(left, right, self.similarity_params)

    def reduce_logits(
        self, left: Embedding, right: Embedding, terms: Mapping[str, Term], **options: Any
    ) -> tuple[jax.Array, engines.Folded, jax.Array]:
        """Applies `terms` to the negatives of each item; item i is the partner of item i.

        Args:
          left: embedding of the left view.
          right: embedding of the right view.
          terms: see `losses.engine.reduce_logits`.
          **options: `engine` and `chunk_size`, see `losses.engine.reduce_logits`.

        Returns:
          The logits [B] of the pairs, name -> (rows [B], columns [B]), and the in-batch accuracy.
        """
        rows, columns = self.prepare(left, right)
        positives = self.paired(rows, columns)
        return positives, *self.reduce_prepared(rows, columns, positives, terms, **options)

    def reduce_prepared(
        self,
        rows: Prepared,
        columns: Prepared,
        positives: jax.Array,
        terms: Mapping[str, Term],
        **options: Any,
    ) -> tuple[engines.Folded, jax.Array]:
        """Applies `terms` to the negatives of prepared items with the logits [B] of their pairs.

        Returns:
          See `reduce_logits`. The accuracy is the share of rows that score their partner above
          every negative.
        """
        folded = engines.reduce_logits(
            rows,
            columns,
            self.similarity.logits,
            params=self.similarity_params,
            ids=self.ids,
            positives=positives,
            terms={**terms, "not_below": NOT_BELOW},
            mesh=self.mesh,
            pair_bytes=self.similarity.cost(rows, columns).bytes,
            **options,
        )
        return folded, jnp.mean((folded["not_below"][0] == 0).astype(jnp.float32))


def require(loss: str, extra: jax.Array | None, head: str) -> jax.Array:
    """Returns what an embedding has with a head of this name."""
    if extra is None:
        raise UserError(
            f"The loss {loss!r} needs head.name={head!r} on both sides; set it, or remove the loss."
        )
    return extra


NonNegative = Annotated[float | jax.Array, Bounds(at_least=0)]
"""An option that may change with the step."""

Positive = Annotated[float | jax.Array, Bounds(above=0)]
"""Like `NonNegative`, but larger than 0."""

ChunkSize = Annotated[int, Bounds(at_least=1)]

LossFunction = Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
