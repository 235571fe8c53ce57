"""Views of a batch: the image and the drawn captions, each modality embedded in one pass."""

import functools
from collections.abc import Collection, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.data.text.length_bucketing import LengthBucketing
from xmodal.models import DualEncoder, Embedding
from xmodal.models.dual_encoder import MODALITIES
from xmodal.train.step.length_bucketing import RANK, embed_by_length
from xmodal.train.step.tasks import MINED_VIEWS, Task, caption_indices, modalities, reads_mined
from xmodal.train.tree import Tree

# Batch columns that a tower reads. Frozen features replace the raw columns.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "image": ("image", "image_mask", "image_tags", "image_features"),
    "text": ("text_ids", "text_mask", "text_label_ids", "text_features", RANK),
}
# Columns [B, 2, ...] of two mined images for every row; mined texts are the last two of each row.
MINED_COLUMNS: Mapping[str, str] = {f"mined_{name}": name for name in COLUMNS["image"]}


def tower_inputs(
    batch: Mapping[str, jax.Array], modality: str, captions: Collection[int] | None = None
) -> dict[str, jax.Array]:
    """Returns the input columns of one tower.

    Args:
      batch: columns of a training batch, images [B, ...] and texts [B, C, ...].
      modality: "image" or "text".
      captions: positions of the captions to take; None for all.

    Returns:
      Images [B, ...], or texts [B x C, ...], with the captions of an image in sequence.
    """
    found = {name: batch[name] for name in COLUMNS[modality] if name in batch}
    if modality == "image":
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
    length_bucketing: LengthBucketing | None = None,
    mesh: Mesh | None = None,
) -> tuple[dict[str, Embedding], Tree]:
    """Returns the embedding of every view that the tasks compare, and the towers' new state.

    Views of mined negatives are among them if a loss reads them, see `tasks.MINED_VIEWS`.

    Args:
      model: the dual encoder.
      tasks: from `make_tasks`.
      params: parameters of the model.
      model_state: running statistics of the model.
      batch: columns of a training batch.
      train: see `Tower.apply`.
      frozen: modality -> frozen parts, see `Tower.apply`.
      key: see `Tower.apply`; each tower gets its own.
      length_bucketing: texts that are embedded apart if the batch has ranks, see `embed_by_length`.
      mesh: devices that the batch is split over, for `length_bucketing`.
    """
    views: dict[str, Embedding] = {}
    states: Tree = dict(model_state)
    mined = reads_mined(tasks)
    for modality in sorted(modalities(tasks), key=MODALITIES.index):
        if modality == "image":
            names, inputs = ["image"], tower_inputs(batch, modality)
            if mined:
                inputs = _with_mined(inputs, batch)
        else:
            captions = caption_indices(tasks)
            names = [f"caption_{caption}" for caption in captions]
            inputs = tower_inputs(batch, modality, [*captions, -2, -1] if mined else captions)
        names += MINED_VIEWS[modality] if mined else ()
        count = len(names)
        embed = functools.partial(
            model.embed, modality, params, model_state,
            train=train, frozen=(frozen or {}).get(modality, ()),
        )  # fmt: skip
        if RANK in inputs and length_bucketing is not None and mesh is not None:
            embed = functools.partial(
                embed_by_length, embed, captions=count, short=length_bucketing, mesh=mesh
            )
        embedding, states[modality] = embed(
            inputs, key=None if key is None else jax.random.fold_in(key, MODALITIES.index(modality))
        )
        rows = jax.tree.map(lambda x, c=count: x.reshape(len(x) // c, c, *x.shape[1:]), embedding)
        for place, name in enumerate(names):
            views[name] = jax.tree.map(lambda x, p=place: x[:, p], rows)
    return views, states


def _with_mined(
    images: Mapping[str, jax.Array], batch: Mapping[str, jax.Array]
) -> dict[str, jax.Array]:
    """Returns images [B, ...] as [3 B, ...], each followed by the two mined ones of its row."""
    mined = {name: batch[column] for column, name in MINED_COLUMNS.items() if column in batch}
    joined = {
        name: jnp.concatenate([column[:, None], mined[name]], axis=1)
        for name, column in images.items()
    }
    return {name: column.reshape(-1, *column.shape[2:]) for name, column in joined.items()}
