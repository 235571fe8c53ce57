"""The widths of the two sides' embeddings, which have to be equal where they are compared."""

from collections.abc import Mapping

import jax

from xmodal.config import UserError
from xmodal.evals.evaluators import Options
from xmodal.models import DualEncoder
from xmodal.training.tasks import Task, sides
from xmodal.training.tree import Tree
from xmodal.training.views import tower_inputs


def check_widths(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    evals: Mapping[str, Options],
    shapes: tuple[Tree, Tree],
    batch: Mapping[str, jax.ShapeDtypeStruct],
) -> None:
    """Refuses towers of different widths that a task or an evaluator compares.

    Args:
      model: the dual encoder.
      tasks: of the run.
      evals: of the run, by name.
      shapes: of `(params, model_state)`.
      batch: name -> shape and dtype of the columns of a training batch.

    Raises:
      UserError: names the widths, who compares, and what to set.
    """
    # A loss with parameters of its own takes any two widths.
    comparing = [
        f"config.tasks.{task.name}"
        for task in tasks
        if len(sides((task,))) > 1 and task.module is None
    ]
    comparing += [f"config.evals.{name}" for name, each in evals.items() if each.compares_sides]
    if len(model.towers) < 2 or not comparing:
        return
    one = {
        name: jax.ShapeDtypeStruct((1, *spec.shape[1:]), spec.dtype) for name, spec in batch.items()
    }

    def embed(params: Tree, model_state: Tree, batch: Mapping[str, jax.Array]) -> dict:
        inputs = {side: tower_inputs(batch, side) for side in model.towers}
        return {
            side: model.embed(side, params, model_state, inputs[side])[0].vector
            for side in model.towers
        }

    vectors = jax.eval_shape(embed, *shapes, one)
    image, text = (vectors[side].shape[-1] for side in ("image", "text"))
    if image != text:
        raise UserError(
            f"config.model.image gives vectors of {image} numbers and config.model.text of {text}, "
            f"and {comparing[0]} compares them: give one a projection of the other's width, "
            f"--config.model.image.projection=\"{{'width': {text}}}\"."
        )
