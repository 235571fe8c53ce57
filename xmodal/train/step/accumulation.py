"""Processes a batch in parts, so that memory holds the activations of only one part at a time.

In-batch losses compare all items of a batch, so their gradients cannot be summed over smaller
batches like those of other losses. This module first computes the embeddings of all parts without
keeping activations and passes all of them to the losses; the backward pass then embeds the parts
again, one by one, and sums the parameter gradients. The result is the gradient of the whole batch
(Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
arXiv:2101.06983; open_clip's `--accum-freq`). A cross-encoder compares no pairs with each other, so
that its pairs are processed in parts, too, with the features of the whole batch.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmodal.core import mesh as mesh_lib
from xmodal.models import DualEncoder, Embedding
from xmodal.train.step.tasks import Task
from xmodal.train.step.views import COLUMNS, MINED_COLUMNS, embed_views
from xmodal.train.tree import Tree


def embed_in_parts(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    params: Tree,
    model_state: Tree,
    batch: Mapping[str, jax.Array],
    *,
    steps: int,
    mesh: Mesh,
    key: jax.Array,
    **options: Any,
) -> tuple[dict[str, Embedding], Tree]:
    """Returns the views and states of `embed_views` in training, with one part in memory at a time.

    Takes the arguments of `embed_views`, and the number of parts `steps`. Parts are those of
    `_split`. Each draws its random numbers from its own key, the same in both passes. Batch
    normalization uses the statistics of a part, and the running statistics are updated after each
    part of the first pass.
    """
    read = {name for modality in model.towers for name in COLUMNS[modality]} | MINED_COLUMNS.keys()
    inputs = {name: column for name, column in batch.items() if name in read}

    # A loop keeps the inputs of a checkpointed function and recomputes the function.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def embed(
        states: Tree, part: tuple[jax.Array, dict[str, jax.Array]]
    ) -> tuple[Tree, dict[str, Embedding]]:
        number, columns = part
        own = jax.random.fold_in(key, number)
        views, states = embed_views(
            model, tasks, params, states, columns, key=own, mesh=mesh, **options
        )
        return jax.lax.stop_gradient(states), views

    numbers = jnp.arange(steps, dtype=jnp.uint32)
    states = {modality: model_state[modality] for modality in model.towers}
    states, views = jax.lax.scan(embed, states, (numbers, _split(inputs, steps, mesh)))
    return _join(views, mesh), states


def map_in_parts(
    function: Callable[[Any, jax.Array], Any], items: Any, *, steps: int, mesh: Mesh
) -> Any:
    """Returns the rows of a function for all items, with one part in memory at a time.

    Args:
      function: (items of a part, its number uint32) -> tree of arrays with a row per item.
      items: tree of arrays [B, ...]; see `_split`.
      steps: number of parts.
      mesh: devices that the batch is split over.
    """
    compute = jax.checkpoint(lambda part: function(part[1], part[0]), prevent_cse=False)
    numbers = jnp.arange(steps, dtype=jnp.uint32)
    return _join(jax.lax.map(compute, (numbers, _split(items, steps, mesh))), mesh)


def _split(items: Any, steps: int, mesh: Mesh) -> Any:
    """Returns arrays [B, ...] as [steps, B / steps, ...], without moving items between devices.

    Part j has the items j, j + steps, j + 2 steps, ...: every device splits its own items, and the
    parts are the same on any number of devices.
    """
    sharding = NamedSharding(mesh, PartitionSpec(None, mesh.axis_names))

    def split_column(column: jax.Array) -> jax.Array:
        parts = column.reshape(len(column) // steps, steps, *column.shape[1:]).swapaxes(0, 1)
        return jax.lax.with_sharding_constraint(parts, sharding)

    return jax.tree.map(split_column, items)


def _join(parts: Any, mesh: Mesh) -> Any:
    """Returns arrays [steps, B / steps, ...] as [B, ...], the opposite of `_split`."""

    def join_column(column: jax.Array) -> jax.Array:
        count, items, *rest = column.shape
        return mesh_lib.split_rows(column.swapaxes(0, 1).reshape(count * items, *rest), mesh)

    return jax.tree.map(join_column, parts)
