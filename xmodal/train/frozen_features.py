"""Frozen features: outputs of frozen encoders, computed once for all items of a split.

They are stored as records beside the dataset, and training reads them in place of the raw column.
So does evaluation if they are pooled; tokens, which are rounded in records, it computes again.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.progress import progress
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.models.tower import Tower
from xmodal.train.run import Run
from xmodal.train.tree import TrainState, Tree

# Texts of this many batches are sorted by length, so that each batch has texts of similar length.
_SORTED_BATCHES = 16
# Texts are padded to a multiple of this.
_LENGTH_STEP = 8
_BATCH_SIZE = 256
# For pictures on a CPU, where larger batches are no faster and their maps fill gigabytes.
_CPU_IMAGES = 16

_Arrays = Mapping[str, np.ndarray]


def open_or_compute(
    parts: Run, state: TrainState, *, compute: bool = True
) -> tuple[data.FeatureReader, ...]:
    """Returns the training split's features of the modalities that `config.frozen_features` names.

    The first process computes and writes missing features; the others wait for them.

    Args:
      parts: parts of the run, see `resolve`.
      state: weights of the run.
      compute: False for a dry run: missing features are left out, with a warning.
    """
    settings, weights = parts.settings, (state.all_params(), state.model_state)
    config, split, found = settings.data, settings.train_split, []
    if config.text is not None:  # Only evaluators read captions in a prompt.
        config = dataclasses.replace(config, text=dataclasses.replace(config.text, prompt=""))
    for modality in settings.frozen_features.modalities:
        items = data.eval_split(config, split=split, train_split=split)
        found.append(_open_modality(parts, *weights, items, modality, compute=compute))
        place = found[-1].folder if found[-1] else "would be computed first"
        logging.info("Features of the %s tower: %s.", modality, place)
    return tuple(filter(None, found))


def with_features(
    parts: Run, params: Tree, model_state: Tree, items: data.EvalSplit, *, compute: bool
) -> data.EvalSplit:
    """Returns the items of a split, whose stored features are read where they are pooled.

    Embeddings are the same within float32 rounding.

    Args:
      parts: parts of the run.
      params: weights of the run.
      model_state: statistics of the run.
      items: the split.
      compute: whether missing features are computed and written; if not, the tower is run.
    """
    found = [
        _open_modality(parts, params, model_state, items, modality, compute=compute)
        for modality in parts.settings.frozen_features.modalities
        if modality in items.modalities and parts.model.towers[modality].feature_pooling
    ]
    return items.with_features(filter(None, found))


def _open_modality(
    parts: Run,
    params: Tree,
    model_state: Tree,
    items: data.EvalSplit,
    modality: str,
    *,
    compute: bool,
) -> data.FeatureReader | None:
    """Returns the features of one modality; None if they are missing and not to be computed."""
    settings, tower = parts.settings, parts.model.towers[modality]
    paths = tower.frozen_paths(params[modality])
    flat, statistics = leaves_by_path(params[modality]), leaves_by_path(model_state[modality])
    weights = {
        "params": {path: flat[path] for path in paths},
        "state": {path: leaf for path, leaf in statistics.items() if "/encoder/" in path},
    }
    weights = mesh_lib.to_host(weights, parts.mesh)
    root = settings.frozen_features.folder or os.fspath(items.folder)
    # Hashes the weights, the encoder's settings, the inputs and the pooling.
    described = [tower.feature_pooling, settings.model[modality]["encoder"], items.split]
    described += [sorted(items.hashes.items())]
    if modality == "image":
        described += [repr(items.config.image), items.image_ids.tolist()]
    else:
        # Texts have the run's tokenizer, whichever dataset they are from. The contents of the
        # vocabulary matter, not its path.
        texts = items.config.require_text(), settings.data.require_text()
        described += [repr(dataclasses.replace(each, vocabulary="")) for each in texts]
        described.append(data.load_vocabulary(settings.data, settings.train_split).identity)
        described += items.caption_texts
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
    for kind, arrays in weights.items():
        for path, array in sorted(arrays.items()):
            digest.update(f"{kind} {path} {array.shape} {array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data)
    digits = digest.hexdigest()
    folder = os.path.join(root, f"{modality}_features-{items.split}-{digits[:16]}")
    # All processes decide alike, though some may not see the folder, or call it otherwise.
    stored = processes.gather(
        f"look for features of the {modality} tower", str(os.path.isdir(folder))
    )
    if stored[0] == "False":
        if not compute:
            return None
        compute_them = functools.partial(_compute, folder, digits, tower, items, modality, weights)
        processes.first_does(f"write the features of the {modality} tower", compute_them)
    return data.open_features(folder)


def _compute(
    folder: str,
    digits: str,
    tower: Tower,
    items: data.EvalSplit,
    modality: str,
    weights: Mapping[str, _Arrays],
) -> None:
    mesh = mesh_lib.make_mesh(jax.local_devices())
    placed = (unflatten(weights["params"]), unflatten(weights["state"]))
    placed = jax.device_put(placed, mesh_lib.replicated(mesh))
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    batch_size = _CPU_IMAGES if modality == "image" and on_cpu else _BATCH_SIZE
    size = -(-batch_size // mesh.size) * mesh.size

    def run(columns: _Arrays) -> np.ndarray:
        rows = len(next(iter(columns.values())))
        padded = {name: mesh_lib.pad_rows(column, size) for name, column in columns.items()}
        batch = jax.device_put(padded, mesh_lib.batch_sharded(mesh))
        return np.asarray(_features(tower, *placed, batch))[:rows]

    if modality == "image":
        found, count = _image_features(items, run, batch_size), len(items.image_ids)
    else:
        found, count = _text_features(items, run), len(items.caption_ids)
    what = f"Computing features of {count:,} items of the {modality} tower"
    logging.info("%s into %s.", what, folder)
    with progress(what, count) as advance:

        def cut() -> Iterator[np.ndarray]:
            for tokens, mask in found:
                yield tokens if tower.feature_pooling or mask is None else tokens[mask]
                advance(1)

        pooling = {"pooling": tower.feature_pooling} if tower.feature_pooling else {}
        data.write_features(folder, tower.feature_column, {"hash": digits} | pooling, cut())


@functools.partial(jax.jit, static_argnums=0)
def _features(tower: Tower, params: Tree, statistics: Tree, columns: Any) -> jax.Array:
    """Features bfloat16 [N, T, W] of a batch; compiled once for all splits."""
    (features,) = tower.frozen_features(params, statistics, columns).values()
    return features.astype(jnp.bfloat16)


def _image_features(
    items: data.EvalSplit, run: Callable[[_Arrays], np.ndarray], batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yields tokens [T, W], or summands, and their mask [T], if any, in the order of the split."""
    for batch in items.images(batch_size):
        features = run({name: column for name, column in batch.items() if name != "image_id"})
        yield from zip(features, batch.get("image_mask", [None] * len(features)), strict=True)


def _text_features(
    items: data.EvalSplit, run: Callable[[_Arrays], np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the tokens [t, W] of every caption, or their summands, and their mask, in order."""
    for window in items.captions(_BATCH_SIZE * _SORTED_BATCHES):
        ids, mask = window["text_ids"], window["text_mask"]
        lengths = mask.sum(axis=1)
        found: list[tuple[np.ndarray, np.ndarray]] = [(ids, mask)] * len(ids)
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), _BATCH_SIZE):
            rows = order[start : start + _BATCH_SIZE]
            longest = -(-int(lengths[rows].max()) // _LENGTH_STEP) * _LENGTH_STEP
            columns = {"text_ids": ids[rows, :longest], "text_mask": mask[rows, :longest]}
            for row, tokens, own in zip(rows, run(columns), mask[rows, :longest] > 0, strict=True):
                found[row] = tokens, own
        yield from found
