"""Predictors for evaluation, from tasks whose module predicts something."""

from collections.abc import Iterable
from typing import Any

import jax

from xmodal.evals.scores.embed import Predictor
from xmodal.train.step.tasks import Task, sides
from xmodal.train.tree import Tree


def make_predictors(tasks: Iterable[Task]) -> dict[str, Predictor]:
    """Returns the predictors of tasks whose module predicts from images, captions or both."""

    def make(task: Task) -> Predictor:
        module: Any = task.module

        def predict(
            params: Tree, images: jax.Array | None, captions: jax.Array | None
        ) -> jax.Array:
            own = params["tasks"][task.name]["module"]
            if task.views[0] == "image":
                return module.predict(own, images, captions)
            return module.predict(own, captions, images).swapaxes(0, 1)

        return Predictor(frozenset(sides((task,))), predict)

    return {
        task.name: make(task)
        for task in tasks
        if task.module is not None
        and hasattr(task.module.module, "predict")
        # Pairs of two captions are not pairs of an image and a caption.
        and len(sides((task,))) == len(task.views)
    }
