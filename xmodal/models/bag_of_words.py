"""A text tower that adds up word vectors: the BoW baseline, fixed or trained further."""

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.config import lookup
from xmodal.models.embedding import Embedding
from xmodal.models.projection import project
from xmodal.models.tower import DTYPES, ONE_CPU, Devices, Tower

POOLINGS = ("mean", "sum")


class BagOfWords(nn.Module):
    """Parameters: `table` [V, W], and `projection` where it exists."""

    vocab_size: int
    width: int
    pool: str
    dtype: jax.typing.DTypeLike
    projection: int | None

    @nn.compact
    def __call__(
        self, inputs: Mapping[str, jax.Array] | tuple[jax.Array, jax.Array], train: bool
    ) -> Embedding:
        """`text_ids` and `text_mask`, int [N, T], by name or in this order -> vector [N, D].

        A text of which the mask leaves nothing gets a vector of zeros before the projection.
        """
        named = isinstance(inputs, Mapping)
        ids, mask = (inputs["text_ids"], inputs["text_mask"]) if named else inputs
        if ids.ndim != 2 or ids.shape != mask.shape or not jnp.issubdtype(ids.dtype, jnp.integer):
            raise ValueError(
                "a bag of words takes int text_ids [N, T] and text_mask [N, T], got "
                f"{ids.dtype} {list(ids.shape)} and {mask.dtype} {list(mask.shape)}"
            )
        shape = (self.vocab_size, self.width)
        table = self.param("table", nn.initializers.normal(1 / self.width**0.5), shape)
        # Outside the table: nan instead of the last row, so that another vocabulary is noticed.
        rows = jnp.take(table, ids, axis=0, mode="fill", fill_value=jnp.nan)
        known = (mask > 0)[..., None]
        vector = jnp.sum(jnp.where(known, rows.astype(self.dtype), 0), axis=1, dtype=jnp.float32)
        if self.pool == "mean":
            vector /= jnp.maximum(jnp.sum(known, axis=1), 1)
        return Embedding(project(vector, self.projection))


def make_tower(
    *,
    vocab_size: int,
    width: int = 300,
    pool: str = "mean",
    dtype: str = "float32",
    projection: int | None = None,
    devices: Devices = ONE_CPU,
) -> Tower:
    """Word vectors as a tower of int text_ids and text_mask [N, T].

    Args:
      vocab_size: rows of the table.
      width: of the word vectors.
      pool: "mean" or "sum" of the words that the mask keeps; the same to a cosine.
      dtype: of the vectors that are added up, in float32; parameters are float32.
      projection: width of a linear layer after the pooling, or None.
      devices: unused, nothing here depends on them.
    """
    del devices
    pool = lookup("config.model.text.pool", pool, {name: name for name in POOLINGS})
    dtype = lookup("config.model.text.dtype", dtype, DTYPES)
    return Tower(BagOfWords(vocab_size, width, pool, dtype, projection))
