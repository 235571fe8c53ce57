"""Traces the losses before a run, so that wrong options are found early."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.core import mesh as mesh_lib
from xmodal.models import Embedding
from xmodal.similarity import Similarity
from xmodal.train.step.task_losses import compute_losses
from xmodal.train.step.tasks import MINED_VIEWS, Task, reads_mined
from xmodal.train.tree import Tree


def trace_losses(tasks: tuple[Task, ...], similarity: Similarity) -> None:
    """Traces the losses on three items to find wrong options early.

    Losses that read columns or pairs are left out: their shapes are known only with the dataset.

    Raises:
      UserError: an option is wrong, or a loss cannot use its similarity.
    """
    mesh = mesh_lib.make_mesh(jax.devices()[:1])
    alone = (t for t in tasks if not (t.config.loss.inputs or t.config.loss.reads or t.loss.pairs))
    simple = tuple(alone)
    vector: Any = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    residuals: Any = jax.ShapeDtypeStruct((3, 2, 4), jnp.float32)
    mask: Any = jax.ShapeDtypeStruct((3, 2), jnp.bool_)
    extras = {"mean": vector, "residuals": residuals, "tokens": residuals, "mask": mask}
    extras |= dict.fromkeys(("instance", "consensus", "fused", "log_concepts"), vector)
    item = Embedding(vector, log_sigma=vector, extras=extras)

    def compute(views: Mapping[str, Embedding], ids: jax.Array) -> jax.Array:
        key = jax.random.key(0)
        params: Tree = {"similarity": similarity.init(key, item, item)}
        params["tasks"] = {task.name: task.init(key, views, {}, {})[0] for task in simple}
        return compute_losses(
            simple, views, {"image_id": ids}, params, {},
            similarity=similarity, seed=0, step=ids[0], mesh=mesh,
        )[0]  # fmt: skip

    views = {view: item for task in simple for view in task.views}
    if reads_mined(simple):
        views |= dict.fromkeys((*MINED_VIEWS["image"], *MINED_VIEWS["text"]), item)
    jax.eval_shape(compute, views, jax.ShapeDtypeStruct((3,), jnp.int32))
