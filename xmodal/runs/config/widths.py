"""Checks that the embeddings of the two sides have equal widths if they are compared."""

from collections.abc import Mapping
from typing import Any

import jax

from xmodal.base.config import UserError
from xmodal.evals.evaluators import Options
from xmodal.models import DualEncoder
from xmodal.training.tasks import Task, sides
from xmodal.training.tree import Tree
from xmodal.training.views import tower_inputs


def check_widths(
    sections: Mapping[str, Any],
    model: DualEncoder,
    tasks: tuple[Task, ...],
    evals: Mapping[str, Options],
    shapes: tuple[Tree, Tree],
    batch: Mapping[str, jax.ShapeDtypeStruct],
) -> None:
    """Raises an error if a task or evaluator compares towers of different widths.

    Args:
      sections: `config.model`.
      model: the dual encoder.
      tasks: tasks of the run.
      evals: evaluators of the run, by name.
      shapes: shapes of `(params, model_state)`.
      batch: name -> shape and dtype of the columns of a training batch.

    Raises:
      UserError: names the widths, what compares them, and what to set.
    """
    # A loss with its own parameters accepts any two widths.
    comparing = [
        f"config.tasks.{task.name}"
        for task in tasks
        if len(sides((task,))) > 1 and task.module is None
    ]
    comparing += [f"config.evals.{name}" for name, each in evals.items() if each.compares_sides]
    if len(model.towers) < 2 or not comparing:
        return

    def width(side: str) -> int:
        # A projection may only normalize, without setting a width.
        if projected := (sections[side].get("projection") or {}).get("width"):
            return projected

        def embed(params: Tree, model_state: Tree, batch: Mapping[str, jax.Array]) -> jax.Array:
            inputs = tower_inputs(batch, side)
            return model.embed(side, params, model_state, inputs)[0].vector

        one = {name: spec.update(shape=(1, *spec.shape[1:])) for name, spec in batch.items()}
        return jax.eval_shape(embed, *shapes, one).shape[-1]

    image, text = width("image"), width("text")
    if image != text:
        raise UserError(
            f"config.model.image produces {image}-dimensional embeddings and config.model.text "
            f"{text}-dimensional ones, and {comparing[0]} compares them: give one a projection of "
            "the other's width, "
            f"--config.model.image.projection=\"{{'width': {text}}}\"."
        )
