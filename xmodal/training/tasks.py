"""Tasks: which views of a batch are matched by which loss, and how the losses are summed."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.config import UserError, check_keys, lookup
from xmodal.losses import LOSSES, similarity

KEYS = ("left", "right", "loss", "options", "weight")
VIEW = re.compile(r"image|caption_(\d+)")


@dataclasses.dataclass(frozen=True)
class Task:
    """One matching problem inside a batch.

    Attributes:
      name: as in the config and in the scalars (`train/i2t/loss`).
      left: a view: `image`, or `caption_0`, `caption_1`, ... the captions drawn for that image.
      right: the view that row i of `left` belongs with.
      loss: ([B, D], [B, D], groups [B]) -> (scalar, scalars for the log).
      weight: of this loss in the sum; c of the CxC paper's equation (2) is the t2t task's.
    """

    name: str
    left: str
    right: str
    loss: Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
    weight: float


def make_tasks(config: Mapping[str, Mapping[str, Any]]) -> tuple[Task, ...]:
    """Builds the tasks of `config.tasks` in the order of their names.

    Raises:
      UserError: no task, an unknown or missing key, an unknown view or loss.
    """
    if not config:
        raise UserError("config.tasks is empty; a run needs at least one task.")
    tasks = []
    for name, given in sorted(config.items()):
        check_keys(f"config.tasks.{name}", given, KEYS)
        if missing := [key for key in KEYS if key not in given and key != "options"]:
            raise UserError(f"config.tasks.{name} lacks {missing}; known: {sorted(KEYS)}.")
        for side in ("left", "right"):
            if not VIEW.fullmatch(given[side]):
                raise UserError(
                    f"config.tasks.{name}.{side}={given[side]!r} is no view of a batch; "
                    "known: image, caption_0, caption_1, ..."
                )
        loss = lookup(f"config.tasks.{name}.loss", given["loss"], LOSSES)
        options = dict(given.get("options", {}))
        check_keys(f"config.tasks.{name}.options", options, _options_of(loss))
        tasks.append(
            Task(name, given["left"], given["right"], partial(loss, **options), given["weight"])
        )
    return tuple(tasks)


def _options_of(loss: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(loss).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


def caption_indices(tasks: tuple[Task, ...]) -> list[int]:
    """Which captions of each image the tasks look at, ascending."""
    matches = [VIEW.fullmatch(view) for task in tasks for view in (task.left, task.right)]
    return sorted({int(m.group(1)) for m in matches if m and m.group(1) is not None})


def needs_image(tasks: tuple[Task, ...]) -> bool:
    """Whether any task looks at the image."""
    return any("image" in (task.left, task.right) for task in tasks)


def compute_losses(
    tasks: tuple[Task, ...],
    views: Mapping[str, jax.Array],
    groups: jax.Array,
    similarity_name: str,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sums the tasks' losses.

    Args:
      tasks: from `make_tasks`.
      views: view name -> [B, D] embeddings of the global batch.
      groups: [B] int32 image ids: two examples of one image are not each other's negatives.
      similarity_name: key of `similarity.SIMILARITIES`.

    Returns:
      The weighted sum, and `<task>/loss` with the loss's own scalars.
    """
    prepared = {name: similarity.normalise(similarity_name, v) for name, v in views.items()}
    total = jnp.zeros((), jnp.float32)
    scalars = {}
    for task in tasks:
        loss, extras = task.loss(prepared[task.left], prepared[task.right], groups)
        total += task.weight * loss
        scalars |= {f"{task.name}/{key}": value for key, value in ({"loss": loss} | extras).items()}
    return total, scalars
