"""Views of a batch: the image and the drawn captions, each side embedded in one pass."""

from collections.abc import Collection, Mapping

import jax

from xmodal.models import DualEncoder, Embedding
from xmodal.models.dual_encoder import SIDES
from xmodal.training.tasks import Task, caption_indices, sides
from xmodal.training.tree import Tree

# Batch columns that a tower reads. Frozen features replace the raw columns.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "image": ("image", "image_mask", "image_features"),
    "text": ("text_ids", "text_mask", "text_label_ids", "text_features"),
}


def tower_inputs(
    batch: Mapping[str, jax.Array], side: str, captions: Collection[int] | None = None
) -> dict[str, jax.Array]:
    """Returns the input columns of one tower.

    Args:
      batch: columns of a training batch, images [B, ...] and texts [B, C, ...].
      side: "image" or "text".
      captions: positions of the captions to take; None for all.

    Returns:
      Images [B, ...], or texts [B x C, ...], with the captions of an image in sequence.
    """
    found = {name: batch[name] for name in COLUMNS[side] if name in batch}
    if side == "image":
        return found
    if captions is not None:
        found = {name: column[:, list(captions)] for name, column in found.items()}
    return {name: column.reshape(-1, *column.shape[2:]) for name, column in found.items()}


def embed_views(
    model: DualEncoder,
    tasks: tuple[Task, ...],
    params: Tree,
    model_state: Tree,
    batch: Mapping[str, jax.Array],
    *,
    train: bool = False,
    frozen: Mapping[str, Collection[str]] | None = None,
    key: jax.Array | None = None,
) -> tuple[dict[str, Embedding], Tree]:
    """Returns the embedding of every view that the tasks compare, and the towers' new state.

    Args:
      model: the dual encoder.
      tasks: from `make_tasks`.
      params: parameters of the model.
      model_state: running statistics of the model.
      batch: columns of a training batch.
      train: see `Tower.apply`.
      frozen: side -> frozen parts, see `Tower.apply`.
      key: see `Tower.apply`; each tower gets its own.
    """
    views: dict[str, Embedding] = {}
    states: Tree = dict(model_state)
    captions = caption_indices(tasks)
    for side in sorted(sides(tasks), key=SIDES.index):
        embedding, states[side] = model.embed(
            side,
            params,
            model_state,
            tower_inputs(batch, side, captions),
            train=train,
            frozen=(frozen or {}).get(side, ()),
            key=None if key is None else jax.random.fold_in(key, SIDES.index(side)),
        )
        if side == "image":
            views["image"] = embedding
            continue
        for position, caption in enumerate(captions):
            views[f"caption_{caption}"] = jax.tree.map(
                lambda leaf, p=position: leaf.reshape(
                    len(leaf) // len(captions), len(captions), *leaf.shape[1:]
                )[:, p],
                embedding,
            )
    return views, states
