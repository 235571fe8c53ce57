"""Processes a batch in parts, so that memory holds the activations of only one part at a time.

In-batch losses compare all items of a batch, so their gradients cannot be summed over smaller
batches like those of other losses. This module first computes the embeddings of all parts without
keeping activations and passes all of them to the losses; the backward pass then embeds the parts
again, one by one, and sums the parameter gradients. The result is the gradient of the whole batch
(Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
arXiv:2101.06983; open_clip's `--accum-freq`). A pair scorer compares no pairs with each other, so
that its pairs are processed in parts, too, with the features of the whole batch.
"""

import functools
from collections.abc import Collection, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.data.text.short_texts import ShortTexts
from xmodal.models import DualEncoder, Embedding
from xmodal.train.step.batch_parts import join, split
from xmodal.train.step.tasks import Task
from xmodal.train.step.views import COLUMNS, MINED_COLUMNS, embed_views
from xmodal.train.tree import Tree


def check(steps: int, batch_size: int, mesh: Mesh) -> None:
    """Refuses parts that the devices cannot share equally.

    Args:
      steps: number of parts of a batch.
      batch_size: items on all devices together.
      mesh: devices that the batch is split over.

    Raises:
      UserError: names the numbers that work.
    """
    if batch_size % (steps * mesh.size):
        per_device = batch_size // mesh.size
        known = [n for n in range(1, per_device + 1) if per_device % n == 0]
        raise UserError(
            f"config.accumulation_steps={steps} does not split the {per_device} items per device "
            f"of config.batch_size={batch_size} into equal parts; use one of {known}."
        )


def embed_in_parts(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    params: Tree,
    model_state: Tree,
    batch: Mapping[str, jax.Array],
    *,
    steps: int,
    mesh: Mesh,
    frozen: Mapping[str, Collection[str]],
    key: jax.Array,
    short_texts: ShortTexts | None = None,
) -> tuple[dict[str, Embedding], Tree]:
    """Returns the views and states of `embed_views` in training, with one part in memory at a time.

    Parts are those of `batch_parts.split`. Each draws its random numbers from its own key, the same
    in both passes. Batch normalization uses the statistics of a part, and the running statistics
    are updated after each part of the first pass.

    Args:
      model: see `embed_views`.
      tasks: see `embed_views`.
      params: see `embed_views`.
      model_state: see `embed_views`.
      batch: see `embed_views`.
      steps: number of parts.
      mesh: devices that the batch is split over.
      frozen: see `embed_views`.
      key: see `embed_views`.
      short_texts: see `embed_views`.
    """
    read = {name for side in model.towers for name in COLUMNS[side]} | MINED_COLUMNS.keys()
    inputs = {name: column for name, column in batch.items() if name in read}

    # A loop keeps the inputs of a checkpointed function and recomputes the function.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def embed(
        states: Tree, part: tuple[jax.Array, dict[str, jax.Array]]
    ) -> tuple[Tree, dict[str, Embedding]]:
        number, columns = part
        views, states = embed_views(
            model, tasks, params, states, columns, train=True, frozen=frozen,
            key=jax.random.fold_in(key, number), short_texts=short_texts, mesh=mesh,
        )  # fmt: skip
        return jax.lax.stop_gradient(states), views

    numbers = jnp.arange(steps, dtype=jnp.uint32)
    states = {side: model_state[side] for side in model.towers}
    states, views = jax.lax.scan(embed, states, (numbers, split(inputs, steps, mesh)))
    return join(views, mesh), states
