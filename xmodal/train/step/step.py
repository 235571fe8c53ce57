"""The training step: each modality once per view, the tasks' losses, one update."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from xmodal.core.config import setting
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.data.data_config import LengthBucketing
from xmodal.models import DualEncoder, Embedding, Mode
from xmodal.train import rngs
from xmodal.train.optimization.optimizer import learning_rate, pass_time, skipped_updates
from xmodal.train.optimization.parameter_groups import select
from xmodal.train.step import accumulation
from xmodal.train.step.task_losses import clamp_scales, compute_losses, observe_batch
from xmodal.train.step.tasks import Task
from xmodal.train.step.views import embed_views
from xmodal.train.tree import TrainState, Tree, frozen_parts, merge

Batch = Mapping[str, jax.Array]
Scalars = dict[str, jax.Array]
Step = Callable[..., tuple[TrainState, Scalars]]
MOMENTUM = "momentum"
"""Key of the momentum copies of the towers in the model state."""


@dataclasses.dataclass(frozen=True)
class L2Config:
    """`config.l2`: a sum of squares added to the loss.

    Attributes:
      pattern: regular expression of trained parameters' paths, see `tree.matches`.
      scale: multiplier of the sum.
    """

    pattern: str = setting(pattern=True)
    scale: float = setting(above=0)


def make_step(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    optimizer: optax.GradientTransformation,
    *,
    mesh: Mesh,
    l2: L2Config | None = None,
    accumulation_steps: int = 1,
    skip_non_finite: bool = False,
    length_bucketing: LengthBucketing | None = None,
) -> Step:
    """Returns the pure function that makes one update.

    Args:
      model: two towers, or one.
      tasks: tasks whose weighted losses are summed.
      optimizer: optimizer of the trained parameters.
      mesh: devices that the batch is split over.
      l2: see `L2Config`.
      accumulation_steps: parts that the batch is embedded and its pairs are scored in, see
        `accumulation`.
      skip_non_finite: whether a batch whose loss or gradient is not finite counts as a step that
        changes only the step counts, and momentum copies of the towers.
      length_bucketing: see `embed_views`.

    Returns:
      (state, batch, step, key_data) -> (state, scalars). `batch` holds global arrays as
      `data.batch_spec` describes them, `key_data` the seed of dropout, drop-connect and the losses'
      draws, see `rngs`. The update happens only if loss and gradient are finite and `step` is the
      state's own step: unless such a batch is skipped, the state stays as it was before the failing
      batch, although later steps may have been dispatched already.
    """
    embed: Callable[..., tuple[dict[str, Embedding], Tree]] = embed_views
    if accumulation_steps > 1:
        embed = functools.partial(accumulation.embed_in_parts, steps=accumulation_steps)
    embed = functools.partial(embed, train=True, length_bucketing=length_bucketing, mesh=mesh)
    rate = momentum_rate(tasks)

    def compute_loss(
        params: Tree, state: TrainState, batch: Batch, seed: jax.Array
    ) -> tuple[jax.Array, tuple[Tree, Tree, Scalars]]:
        frozen, model_state, number = state.frozen, state.model_state, state.step
        everything = merge(params, frozen)
        trained, fixed = leaves_by_path(params), leaves_by_path(frozen)
        parts = {modality: frozen_parts(trained, fixed, modality) for modality in model.towers}
        modes = {part: _mode(params, frozen, part) for part in ("similarity", "cross_encoder")}
        views, states = embed(
            model, tasks, everything, model_state, batch,
            frozen=parts, key=rngs.stream_key(seed, "towers", number),
        )  # fmt: skip
        copied: dict[str, Embedding] = {}
        if rate is not None:
            copies = follow(model_state[MOMENTUM], everything, rate, number)
            copied, _ = embed(
                model, tasks, everything | copies, model_state, batch,
                frozen=parts, key=rngs.stream_key(seed, MOMENTUM, number),
            )  # fmt: skip
            copied, states[MOMENTUM] = jax.lax.stop_gradient(copied), copies
        with jax.named_scope("losses"):
            observed: Tree = {}
            if modes["similarity"] is Mode.TRAIN:
                views, observed = observe_batch(tasks, views, everything, model.similarity, mesh)
            loss, task_states, scalars = compute_losses(
                tasks, views, batch, everything, model_state,
                similarity=model.similarity, seed=seed, step=number, mesh=mesh,
                cross_encoder=model.cross_encoder, pair_mode=modes["cross_encoder"],
                copied=copied, accumulation_steps=accumulation_steps,
            )  # fmt: skip
            if l2 is not None:
                decayed = (trained[path] for path in select(l2.pattern, trained, "config.l2"))
                squares = sum(jnp.sum(jnp.square(x)) for x in decayed)
                scalars["l2"] = jnp.asarray(l2.scale * squares)
                loss += scalars["l2"]
        if task_states:
            states["tasks"] = task_states
        return loss, (dict(model_state) | states, observed, scalars | {"loss": loss})

    def step_function(
        state: TrainState,
        batch: Batch,
        step: jax.Array,
        key_data: jax.Array,
    ) -> tuple[TrainState, Scalars]:
        gradients, (model_state, observed, scalars) = jax.grad(compute_loss, has_aux=True)(
            state.params, state, batch, key_data
        )
        with jax.named_scope("update"):
            updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
            params = optax.apply_updates(state.params, updates)
            trained = leaves_by_path(params)
            seen = {path: x for path, x in leaves_by_path(observed).items() if path in trained}
            params = merge(params, unflatten(seen))
            norm = optax.tree.norm(gradients)
            scalars |= {"gradient_norm": norm, "learning_rate": learning_rate(state.opt_state)}
            if (skipped := skipped_updates(opt_state)) is not None:
                scalars["skipped_updates"] = skipped
            advanced = dataclasses.replace(
                state,
                step=state.step + 1,
                params=model.share(clamp_scales(tasks, params, model.similarity)),
                model_state=model_state,
                opt_state=opt_state,
            )
            otherwise = _skip(state, advanced) if skip_non_finite else state
            accepted = jnp.isfinite(scalars["loss"]) & jnp.isfinite(norm) & (step == state.step)
            chosen = _select(accepted, advanced, otherwise)
        return chosen, {f"train/{k}": v for k, v in scalars.items()}

    return step_function


def momentum_rate(tasks: Collection[Task]) -> float | None:
    """Returns the momentum of the copies, the first task's; None if no task needs copies.

    The copies are moving averages of the towers' parameters: He et al., "Momentum Contrast for
    Unsupervised Visual Representation Learning" (2020), equation 2.
    """
    modules = (task.module for task in tasks if task.module is not None)
    return next((each.momentum for each in modules if each.momentum is not None), None)


def follow(copies: Tree, params: Tree, rate: float, step: jax.Array) -> Tree:
    """Returns the copies after a step; before the first one they equal the towers.

    Args:
      copies: copies of the parameters by modality.
      params: parameters of the whole model.
      rate: m; the result is m copy + (1 - m) parameter.
      step: int32 scalar.
    """
    kept = jnp.where(step == 0, 0.0, rate)
    towers = {modality: params[modality] for modality in copies}
    mixed = jax.tree.map(lambda copy, own: kept * copy + (1 - kept) * own, copies, towers)
    return jax.lax.stop_gradient(mixed)


def _skip(state: TrainState, advanced: TrainState) -> TrainState:
    """Returns the state after a batch that is skipped: the clocks and momentum copies move."""
    # Copies follow before a batch, whatever it holds; at step 0, they become the towers.
    copies = {k: tree for k, tree in advanced.model_state.items() if k == MOMENTUM}
    return dataclasses.replace(
        state,
        step=advanced.step,
        opt_state=pass_time(state.opt_state, advanced.opt_state),
        model_state=dict(state.model_state) | copies,
    )


def _mode(params: Tree, frozen: Tree, part: str) -> Mode:
    """The mode of a part of the model that is not a tower."""
    is_frozen = leaves_by_path(frozen.get(part, {})) and not params.get(part)
    return Mode.FROZEN if is_frozen else Mode.TRAIN


def _select(accepted: jax.Array, advanced: TrainState, state: TrainState) -> TrainState:
    changed = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old),
        dataclasses.replace(advanced, frozen={}),
        dataclasses.replace(state, frozen={}),
    )
    return dataclasses.replace(changed, frozen=state.frozen)
