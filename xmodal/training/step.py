"""The training step: each needed tower once, the tasks' losses, one update."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from xmodal import mesh as mesh_lib
from xmodal.config import UserError, check_keys
from xmodal.models import DualEncoder
from xmodal.training import rngs
from xmodal.training import tasks as task_lib
from xmodal.training.optimizer import skipped_updates
from xmodal.training.state import TrainState, Tree, flatten, merge

Batch = Mapping[str, jax.Array]
Step = Callable[[TrainState, Batch, jax.Array], tuple[TrainState, dict[str, jax.Array]]]

# What a batch may hold for the text tower: token ids, or features computed before.
TEXT_INPUTS = ("text_ids", "text_features", "text_mask")


def check_towers(model: DualEncoder, tasks: tuple[task_lib.Task, ...]) -> None:
    """Refuses tasks that look at a tower the model does not have, or leave one untrained.

    Raises:
      UserError: names the towers on both sides.
    """
    needed = {"image"} if task_lib.needs_image(tasks) else set()
    needed |= {"text"} if task_lib.caption_indices(tasks) else set()
    if needed != set(model.towers):
        raise UserError(
            f"config.tasks look at the towers {sorted(needed)}, config.model has "
            f"{sorted(model.towers)}; set the other tower to None or add a task for it."
        )


def make_step(
    model: DualEncoder,
    tasks: tuple[task_lib.Task, ...],
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    *,
    seed: int,
    l2: Mapping[str, Any] | None = None,
) -> Step:
    """Builds the pure function that is one update.

    Args:
      model: two towers, or one.
      tasks: their weighted losses are summed.
      optimizer: of the trained parameters.
      schedule: step -> learning rate; only reported.
      seed: of dropout and drop-connect.
      l2: `pattern` (regular expression searched in parameter paths) and `scale` of a sum of
        squares added to the loss, None for none.

    Returns:
      (state, batch, step) -> (state, scalars). `batch` holds global arrays: `image`
      [B, H, W, 3] uint8 or [B, ...] features, `text_ids` and `text_mask` [B, C, T] int32 (or
      `text_features` [B, C, T, W] in place of `text_ids`), `image_id` [B] int32. The update
      happens only if loss and gradient are finite and `step` is the state's own step: after a
      failure the state stays what it was before the failing batch, whatever was dispatched
      behind it.
    """
    if l2 is not None:
        check_keys("config.l2", l2, ("pattern", "scale"))
    captions = task_lib.caption_indices(tasks)

    def embed_views(
        params: Tree, model_state: Tree, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, jax.Array], Tree]:
        views, states = {}, dict(model_state)

        def embed(tower: str, inputs: Any) -> jax.Array:
            tower_key = jax.random.fold_in(key, sorted(model.towers).index(tower))
            embedding, states[tower] = model.embed(
                tower, params, model_state, inputs, train=True, key=tower_key
            )
            return embedding.vector

        if task_lib.needs_image(tasks):
            views["image"] = embed("image", batch["image"])
        if captions:
            # [B, C, T] -> [B x C, T]: all captions in one pass of the tower.
            text = {name: batch[name][:, captions] for name in TEXT_INPUTS if name in batch}
            flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in text.items()}
            vectors = embed("text", flat)
            vectors = vectors.reshape(-1, len(captions), *vectors.shape[1:])
            views |= {f"caption_{c}": vectors[:, i] for i, c in enumerate(captions)}
        return views, states

    def compute_loss(
        params: Tree, frozen: Tree, model_state: Tree, batch: Batch, key: jax.Array
    ) -> tuple[jax.Array, tuple[Tree, dict[str, jax.Array]]]:
        views, states = embed_views(merge(params, frozen), model_state, batch, key)
        loss, scalars = task_lib.compute_losses(tasks, views, batch["image_id"], model.similarity)
        if l2 is not None:
            penalty = l2["scale"] * sum_of_squares(params, l2["pattern"])
            loss, scalars["l2"] = loss + penalty, penalty
        return loss, (states, scalars | {"loss": loss})

    def step_function(
        state: TrainState, batch: Batch, step: jax.Array
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        key = rngs.stream_key(seed, "towers", state.step)
        gradient = jax.grad(compute_loss, has_aux=True)
        gradients, (model_state, scalars) = gradient(
            state.params, state.frozen, state.model_state, batch, key
        )
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        norm = optax.global_norm(gradients)
        advanced = dataclasses.replace(
            state,
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            model_state=model_state,
            opt_state=opt_state,
        )
        scalars |= {"gradient_norm": norm, "learning_rate": schedule(state.step)}
        if (skipped := skipped_updates(opt_state)) is not None:
            scalars["skipped_updates"] = skipped
        accepted = jnp.isfinite(scalars["loss"]) & jnp.isfinite(norm) & (step == state.step)
        return _select(accepted, advanced, state), {f"train/{k}": v for k, v in scalars.items()}

    return step_function


def sum_of_squares(params: Tree, pattern: str) -> jax.Array:
    """Sum of squares of the parameters whose path contains `pattern`.

    Raises:
      UserError: nothing matches.
    """
    flat = flatten(params)
    chosen = [leaf for path, leaf in flat.items() if re.search(pattern, path)]
    if not chosen:
        raise UserError(f"config.l2.pattern={pattern!r} matches no trained parameter.")
    return sum(jnp.sum(jnp.square(leaf)) for leaf in chosen)


def _select(accepted: jax.Array, advanced: TrainState, state: TrainState) -> TrainState:
    changed = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old),
        dataclasses.replace(advanced, frozen={}),
        dataclasses.replace(state, frozen={}),
    )
    return dataclasses.replace(changed, frozen=state.frozen)


def jit_step(step: Step, state: TrainState, mesh: Mesh) -> Step:
    """Compiles the step for the state's own layout; the old state's memory is reused."""
    homes = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(step, donate_argnums=0, out_shardings=(homes, mesh_lib.replicated(mesh)))
