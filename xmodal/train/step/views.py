"""Views of a batch: the image and the drawn captions, each modality embedded in one pass.

With `config.data.length_bucketing`, each device embeds its short texts separately, with less
padding.
"""

import functools
import operator
from collections.abc import Callable, Collection, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from xmodal.core.errors import UserError
from xmodal.data.data_config import LengthBucketing
from xmodal.models import DualEncoder, Embedding
from xmodal.models.dual_encoder import MODALITIES
from xmodal.train.step.tasks import MINED_VIEWS, Task, caption_indices, modalities, reads_mined
from xmodal.train.tree import Tree

RANK = "text_rank"
"""The column of `LengthBucketing.rank`, in batches with texts of two lengths."""
_BY_TOKEN = ("text_ids", "text_mask", "text_features")
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


def embed_by_length(
    embed: Callable[..., tuple[Embedding, Tree]],
    inputs: Mapping[str, jax.Array],
    *,
    captions: int,
    short: LengthBucketing,
    mesh: Mesh,
    key: jax.Array | None,
) -> tuple[Embedding, Tree]:
    """Returns what `embed` returns for all texts at once; each device embeds its short ones first.

    Arrays with an axis of tokens are padded with zeros where texts are short.

    Args:
      embed: (inputs, key) -> (embeddings, state of the tower), which may not normalize a batch.
      inputs: columns of the text tower and `RANK`, with the captions of a row in sequence.
      captions: number of captions of a row.
      short: the short texts.
      mesh: devices that the batch is split over.
      key: typed key, or None.
    """
    count = captions * short.count(len(inputs[RANK]) // (captions * mesh.size))
    if not count:
        return embed(inputs, key=key)

    def divide(texts: Mapping[str, jax.Array]) -> tuple[dict[str, jax.Array], ...]:
        order = jnp.argsort(texts[RANK])
        first = {name: texts[name][order[:count]] for name in texts if name != RANK}
        cut = {name: first[name][:, : short.length] for name in _BY_TOKEN if name in first}
        return first | cut, {name: texts[name][order[count:]] for name in first}

    def join(first: Embedding, others: Embedding, ranks: jax.Array) -> Embedding:
        def place(x: jax.Array, y: jax.Array) -> jax.Array:
            missing = [(0, n - m) for m, n in zip(x.shape[1:], y.shape[1:], strict=True)]
            return jnp.concatenate([jnp.pad(x, [(0, 0), *missing]), y])[places]

        places = jnp.argsort(jnp.argsort(ranks))
        return jax.tree.map(place, first, others)

    rows = PartitionSpec(mesh.axis_names)
    devices = functools.partial(jax.shard_map, mesh=mesh, in_specs=rows, out_specs=rows)
    keys = (None, None) if key is None else jax.random.split(key)
    short_inputs, long_inputs = devices(divide)(inputs)
    first, state = embed(short_inputs, key=keys[0])
    others, other_state = embed(long_inputs, key=keys[1])
    statistics = (each.get("batch_stats", {}) for each in (state, other_state))
    # A frozen modality returns its running statistics as they were.
    if not all(jax.tree.leaves(jax.tree.map(operator.is_, *statistics))):
        raise UserError(
            "config.data.length_bucketing embeds short texts separately, but the text tower "
            "normalizes all texts of a batch together (batch normalization); set it to None."
        )
    return devices(join)(first, others, inputs[RANK]), state
