"""Embeds the short texts of a batch apart from the others, with less padding."""

import functools
import operator
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from xmodal.core.errors import UserError
from xmodal.core.mesh import BATCH_AXIS
from xmodal.data.text.length_bucketing import LengthBucketing
from xmodal.models import Embedding
from xmodal.train.tree import Tree

RANK = "text_rank"
"""The column of `LengthBucketing.rank`, in batches with texts of two lengths."""
_BY_TOKEN = ("text_ids", "text_mask", "text_features")

Inputs = Mapping[str, jax.Array]


def embed_by_length(
    embed: Callable[..., tuple[Embedding, Tree]],
    inputs: Inputs,
    *,
    captions: int,
    short: LengthBucketing,
    mesh: Mesh,
    key: jax.Array | None,
) -> tuple[Embedding, Tree]:
    """Returns what `embed` returns for all texts at once; each device embeds its short ones apart.

    Arrays with an axis of tokens are padded with zeros where texts are short.

    Args:
      embed: (inputs, key) -> (embeddings, state of the tower), which may not normalize a batch.
      inputs: columns of the text tower and `RANK`, with the captions of a row in sequence.
      captions: number of captions of a row.
      short: the short texts.
      mesh: devices that the batch is split over.
      key: typed key, or None.
    """
    count = captions * short.count(len(inputs[RANK]) // (captions * mesh.size))
    if not count:
        return embed(inputs, key=key)

    def divide(texts: Inputs) -> tuple[Inputs, Inputs]:
        order = jnp.argsort(texts[RANK])
        first = {name: texts[name][order[:count]] for name in texts if name != RANK}
        cut = {name: first[name][:, : short.length] for name in _BY_TOKEN if name in first}
        return first | cut, {name: texts[name][order[count:]] for name in first}

    def join(first: Embedding, others: Embedding, ranks: jax.Array) -> Embedding:
        def place(x: jax.Array, y: jax.Array) -> jax.Array:
            missing = [(0, n - m) for m, n in zip(x.shape[1:], y.shape[1:], strict=True)]
            return jnp.concatenate([jnp.pad(x, [(0, 0), *missing]), y])[places]

        places = jnp.argsort(jnp.argsort(ranks))
        return jax.tree.map(place, first, others)

    rows = PartitionSpec(BATCH_AXIS)
    devices = functools.partial(jax.shard_map, mesh=mesh, in_specs=rows, out_specs=rows)
    keys = (None, None) if key is None else jax.random.split(key)
    short_inputs, long_inputs = devices(divide)(inputs)
    first, state = embed(short_inputs, key=keys[0])
    others, other_state = embed(long_inputs, key=keys[1])
    statistics = (each.get("batch_stats", {}) for each in (state, other_state))
    # A frozen modality returns its running statistics as they were.
    if not all(jax.tree.leaves(jax.tree.map(operator.is_, *statistics))):
        raise UserError(
            "config.data.length_bucketing embeds short texts separately, but the text tower "
            "normalizes all texts of a batch together (batch normalization); set it to None."
        )
    return devices(join)(first, others, inputs[RANK]), state
