"""Statistics of the whole batch that a similarity needs before it scores pairs."""

import dataclasses
from collections.abc import Mapping

from jax.sharding import Mesh

from xmodal.models import Embedding
from xmodal.similarity import Observer, Similarity
from xmodal.train.step.tasks import Task
from xmodal.train.tree import Tree


def observe_batch(
    tasks: tuple[Task, ...],
    views: Mapping[str, Embedding],
    params: Tree,
    similarity: Similarity,
    mesh: Mesh | None = None,
) -> tuple[dict[str, Embedding], Tree]:
    """Returns the views with the statistics of `Observer.observe`, and new values of parameters.

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
    if not isinstance(similarity.module, Observer):
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
        own = {
            name: {**leaf, **values[name]} if name in values else leaf for name, leaf in own.items()
        }
    return found, {"similarity": observed} if observed else {}
