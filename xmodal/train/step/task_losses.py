"""The weighted sum of the tasks' losses, and the limits of their learned scales."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.losses import Context
from xmodal.models import Embedding, Mode, PairScorer
from xmodal.similarity import Similarity
from xmodal.train import rngs
from xmodal.train.optimization import schedules
from xmodal.train.step.pair_logits import make_pair_logits
from xmodal.train.step.tasks import MINED_VIEWS, Task, shared_parameters, sides_of
from xmodal.train.tree import Tree, flatten


def compute_losses(
    tasks: tuple[Task, ...],
    views: Mapping[str, Embedding],
    batch: Mapping[str, jax.Array],
    params: Tree,
    model_state: Tree,
    *,
    similarity: Similarity,
    seed: int | jax.Array,
    step: jax.Array,
    mesh: Mesh | None = None,
    pair_scorer: PairScorer | None = None,
    pair_mode: Mode = Mode.TRAIN,
    copied: Mapping[str, Embedding] | None = None,
    accumulation_steps: int = 1,
) -> tuple[jax.Array, Tree, dict[str, jax.Array]]:
    """Returns the weighted sum of the tasks' losses, the tasks' new state, and scalars.

    Args:
      tasks: tasks from `make_tasks`.
      views: view -> embedding of the global batch.
      batch: global columns; `image_id` int32 [B] and those named by `inputs`.
      params: parameters of the whole model; those of a task are under `tasks/NAME`.
      model_state: running statistics of the whole model, with the same layout.
      similarity: similarity of the model.
      seed: the run's, see `rngs.stream_key`; a task's randomness follows from it, name and step.
      step: int32 scalar.
      mesh: devices that the batch is split over.
      pair_scorer: the model's, with parameters under `pair_scorer`.
      pair_mode: whether it is trained or frozen.
      copied: views by momentum copies of the towers, see `momentum`, for the tasks that need them.
      accumulation_steps: parts in which pairs are scored, see `accumulation`.

    Returns:
      The sum; `tasks` of the new model state; `<task>/loss` with the loss's own scalars, and
      `<task>/weight` if the weight changes with the step.
    """
    flat = flatten(params)
    # Once for all tasks: the sum of their gradients is limited.
    shared = similarity, similarity.limit(params.get("similarity", {}))
    total = jnp.zeros((), jnp.float32)
    states: Tree = {}
    scalars: dict[str, jax.Array] = {}
    for task in tasks:
        own = params.get("tasks", {}).get(task.name, {})
        state = model_state.get("tasks", {}).get(task.name, {})
        key = rngs.stream_key(seed, f"tasks/{task.name}", step)
        module_key, loss_key = jax.random.split(key)
        left, right = sides_of(task, views)
        columns, reads = task.read_columns(batch), shared_parameters(task, flat)
        inputs = left, right
        if task.module is not None and task.module.momentum is not None:
            inputs = sides_of(task, copied or {})
        outputs, new_state = task.apply_module(own, state, *inputs, columns, reads, key=module_key)
        if new_state:
            states[task.name] = new_state
        pair_logits = None
        if task.loss.pairs and pair_scorer is not None and right is not None:
            pair_logits = make_pair_logits(
                pair_scorer, params, left, right,
                mode=pair_mode, key=module_key, mesh=mesh, steps=accumulation_steps,
            )  # fmt: skip
        groups, (used, used_params) = task.group(batch["image_id"]), _compared_by(task, own, shared)
        context = Context(
            left_ids=groups, right_ids=groups, similarity=used, similarity_params=used_params,
            columns=columns, outputs=outputs, reads=reads, key=loss_key, step=step, mesh=mesh,
            pair_logits=pair_logits,
            mined=_mined(views) if task.loss.mined else (),
        )  # fmt: skip
        weighted, found = _apply_loss(task, left, right, context, step)
        total += weighted
        scalars |= {f"{task.name}/{name}": value for name, value in found.items()}
    return total, states, scalars


def _compared_by(
    task: Task, own: Tree, shared: tuple[Similarity, Mapping[str, Any]]
) -> tuple[Similarity, Mapping[str, Any]]:
    """The task's similarity with its limited parameters, or the model's."""
    if task.similarity is None:
        return shared
    return task.similarity, task.similarity.limit(own.get("similarity", {}))


def _apply_loss(
    task: Task, left: Embedding, right: Embedding | None, context: Context, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The weighted loss of a task, and its scalars."""
    options = {k: schedules.resolve(v, step) for k, v in task.config.loss.options.items()}
    loss, extras = task.loss.function(left, right, context, **options)
    weight = schedules.resolve(task.config.weight, step)
    scalars = {"loss": loss} | extras
    if schedules.is_schedule(task.config.weight):
        scalars["weight"] = weight
    return weight * loss, scalars


def clamp_scales(tasks: tuple[Task, ...], params: Tree, similarity: Similarity) -> Tree:
    """Returns trained parameters after an update, with the scales that `Similarity.clamp` limits.

    Args:
      tasks: tasks, some of which may have a similarity of their own.
      params: trained parameters of the whole model.
      similarity: similarity of the model.
    """
    clamped = dict(params)
    if "similarity" in params:
        clamped["similarity"] = similarity.clamp(params["similarity"])
    for task in tasks:
        own = clamped.get("tasks", {}).get(task.name, {})
        if task.similarity is not None and "similarity" in own:
            own = own | {"similarity": task.similarity.clamp(own["similarity"])}
            clamped["tasks"] = clamped["tasks"] | {task.name: own}
    return clamped


def _mined(views: Mapping[str, Embedding]) -> tuple[tuple[Any, Any], ...]:
    pairs = zip(MINED_VIEWS["image"], MINED_VIEWS["text"], strict=True)
    return tuple((views[image], views[text]) for image, text in pairs)
