"""The weighted sum of the tasks' losses, and the limits of their learned scales."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.mesh import split_rows
from xmodal.core.tree_paths import leaves_by_path
from xmodal.losses import Context
from xmodal.losses.context import PairLogits
from xmodal.models import CrossEncoder, Embedding, Mode
from xmodal.similarity import Similarity
from xmodal.train import rngs
from xmodal.train.optimization import schedules
from xmodal.train.step import accumulation
from xmodal.train.step.tasks import MINED_VIEWS, Task, modalities_of, shared_parameters
from xmodal.train.tree import Tree


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
    cross_encoder: CrossEncoder | None = None,
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
      cross_encoder: the model's, with parameters under `cross_encoder`.
      pair_mode: whether it is trained or frozen.
      copied: views by momentum copies of the towers, see `step.follow`, for tasks that need them.
      accumulation_steps: parts in which pairs are scored, see `accumulation`.

    Returns:
      The sum; `tasks` of the new model state; `<task>/loss` with the loss's own scalars, and
      `<task>/weight` if the weight changes with the step.
    """
    flat = leaves_by_path(params)
    shared = similarity, params.get("similarity", {})
    total = jnp.zeros((), jnp.float32)
    states: Tree = {}
    scalars: dict[str, jax.Array] = {}
    for task in tasks:
        own = params.get("tasks", {}).get(task.name, {})
        state = model_state.get("tasks", {}).get(task.name, {})
        key = rngs.stream_key(seed, f"tasks/{task.name}", step)
        module_key, loss_key = jax.random.split(key)
        left, right = modalities_of(task, views)
        columns = task.read_columns(batch)
        outputs: Mapping[str, jax.Array] = {}
        if task.module is not None:
            inputs = modalities_of(task, views if task.module.momentum is None else copied or {})
            outputs, new_state = task.module.apply(
                own.get("module", {}), state.get("module", {}), *inputs, columns,
                shared_parameters(task, flat), train=True, key=module_key,
            )  # fmt: skip
            if new_state:
                states[task.name] = {"module": new_state}
        pair_logits = None
        if task.loss.pairs and cross_encoder is not None and right is not None:
            pair_logits = make_pair_logits(
                cross_encoder, params, left, right,
                mode=pair_mode, key=module_key, mesh=mesh, steps=accumulation_steps,
            )  # fmt: skip
        used, used_params = shared
        if task.similarity is not None:
            used, used_params = task.similarity, own.get("similarity", {})
        ids = batch["image_id"]
        groups = ids if task.config.negatives == "image" else jnp.arange(len(ids))
        mined = zip(MINED_VIEWS["image"], MINED_VIEWS["text"], strict=True)
        context = Context(
            ids=groups, similarity=used, similarity_params=used_params,
            columns=columns, outputs=outputs, key=loss_key, step=step, mesh=mesh,
            pair_logits=pair_logits,
            mined=tuple((views[i], views[t]) for i, t in mined) if task.loss.mined else (),
        )  # fmt: skip
        options = {k: schedules.resolve(v, step) for k, v in task.config.loss.options.items()}
        loss, extras = task.loss.function(left, right, context, **options)
        weight = schedules.resolve(task.config.weight, step)
        total += weight * loss
        extras = {"loss": loss} | extras
        if schedules.is_schedule(task.config.weight):
            extras["weight"] = weight
        scalars |= {f"{task.name}/{name}": value for name, value in extras.items()}
    return total, states, scalars


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


def observe_batch(
    tasks: tuple[Task, ...],
    views: Mapping[str, Embedding],
    params: Tree,
    similarity: Similarity,
    mesh: Mesh | None = None,
) -> tuple[dict[str, Embedding], Tree]:
    """Returns the views with the extras of `LateInteraction.observe`, and new values of parameters.

    The values are those of the model's similarity that no gradient changes, such as running
    statistics; {} if there are none. Every text is compared with the images of the first task that
    has it.

    Args:
      tasks: tasks from `make_tasks`.
      views: view -> embedding of the global batch.
      params: parameters of the whole model.
      similarity: similarity of the model.
      mesh: devices that the batch is split over.
    """
    found, own = dict(views), dict(params.get("similarity", {}))
    if similarity.module is None:
        return found, {}
    observed: Tree = {}
    for right, left in {
        task.views[1]: task.views[0]
        for task in reversed(tasks)
        if task.similarity is None and len(task.views) > 1
    }.items():
        extras, values = similarity.module.observe(own, views[left], views[right], mesh)
        found[right] = dataclasses.replace(views[right], extras={**views[right].extras, **extras})
        observed |= values
        own |= {name: {**own[name], **leaves} for name, leaves in values.items()}
    return found, {"similarity": observed} if observed else {}


def make_pair_logits(
    scorer: CrossEncoder,
    params: Tree,
    image: Embedding,
    text: Embedding,
    *,
    mode: Mode,
    key: jax.Array,
    mesh: Mesh | None = None,
    steps: int = 1,
) -> PairLogits:
    """Returns the function that scores pairs of a batch, by position.

    Texts are prepared once. So are images on one device; several exchange the features of drawn
    images and prepare them for every call: keys and values of all layers, and their gradients,
    would be many times as large.

    Args:
      scorer: the cross-encoder.
      params: parameters of the whole model.
      image: embedding of the images of the global batch, with `features`.
      text: embedding of the texts.
      mode: whether the scorer is trained or frozen.
      key: seeds the dropout of the prepared items.
      mesh: devices that the batch is split over.
      steps: parts in which the images of a call are processed, see `accumulation`.
    """
    of_image, of_text = jax.random.split(key)
    texts = scorer.prepare("text", params, text.extras["features"], mode=mode, key=of_text)

    def prepare(features: Any) -> Any:
        return scorer.prepare("image", params, features, mode=mode, key=of_image)

    is_late = steps > 1 or (mesh is not None and mesh.size > 1)
    features = image.extras["features"]
    images = features if is_late else prepare(features)

    def take(items: Any, at: jax.Array) -> Any:
        return split_rows(jax.tree.map(lambda leaf: jnp.take(leaf, at, axis=0), items), mesh)

    def score(pairs: tuple[Any, Any], key: jax.Array) -> jax.Array:
        chosen, read = pairs
        chosen = prepare(chosen) if is_late else chosen
        return scorer.logits(params, chosen, read, mode=mode, key=key)

    def compute(image_at: jax.Array | None, text_at: jax.Array, key: jax.Array) -> jax.Array:
        pairs = images if image_at is None else take(images, image_at), take(texts, text_at)
        if steps == 1 or mesh is None:
            return score(pairs, key)
        found: jax.Array = accumulation.map_in_parts(
            lambda part, number: score(part, jax.random.fold_in(key, number)),
            pairs, steps=steps, mesh=mesh,
        )  # fmt: skip
        return found

    return compute
