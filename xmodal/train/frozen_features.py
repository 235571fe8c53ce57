"""Frozen features: outputs of frozen encoders, computed once for all items of a split.

They are stored as records beside the dataset, and training reads them in place of the raw column.
So does evaluation if they are pooled; tokens, which are rounded in records, it computes again.
"""

import dataclasses
import functools
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core import processes
from xmodal.core.buckets import is_on_bucket
from xmodal.core.errors import UserError
from xmodal.core.progress import progress
from xmodal.core.result_files import check_writable
from xmodal.core.tree_paths import unflatten
from xmodal.models.tower import Tower
from xmodal.train.checks import check_folder
from xmodal.train.run import Run
from xmodal.train.step.state import TrainState
from xmodal.train.tree import Tree, flatten

# Texts of this many batches are sorted by length, so that each batch has texts of similar length.
_SORTED_BATCHES = 16
# Texts are padded to a multiple of this.
_LENGTH_STEP = 8
_BATCH_SIZE = 256
# Of pictures on a CPU, where larger batches are no faster, and their maps fill gigabytes.
_CPU_IMAGES = 16
_VISIBLE_SECONDS = 60.0


def open_or_compute(
    parts: Run, state: TrainState, *, compute: bool = True
) -> tuple[data.FeatureReader, ...]:
    """Returns the training split's features of the sides that `config.frozen_features` names.

    The first process computes and writes missing features; the others wait for them.

    Args:
      parts: parts of the run, see `checks.check_parts`.
      state: weights of the run.
      compute: False for a dry run: missing features are left out, with a warning.

    Raises:
      UserError: the features cannot be written, or the stored ones are damaged.
    """
    readers, settings = [], parts.settings
    weights, split = (state.all_params(), state.model_state), settings.train_split
    text = settings.data.text
    if text is not None:  # Only evaluators read captions in a prompt.
        text = dataclasses.replace(text, prompt="")
    trained_on = dataclasses.replace(settings.data, text=text)
    for side in settings.frozen_features.sides:
        items = data.eval_split(trained_on, split=split, train_split=split)
        reader = _open_side(parts, *weights, items, side, compute=compute)
        if reader is None:
            logging.warning("Features of the %s side would be computed first.", side)
            continue
        readers.append(reader)
        logging.info("Features of the %s side from %s.", side, reader.folder)
    return tuple(readers)


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
      compute: whether missing features are computed and written; if not, or if their folder
        cannot be written, the tower is run.

    Raises:
      UserError: the disk is full, or stored features are damaged.
    """
    sides = [
        side
        for side in parts.settings.frozen_features.sides
        if side in items.sides and parts.model.towers[side].feature_pooling
    ]
    root = _root(parts, items)
    if not sides or is_on_bucket(root):
        return items
    weights, compute = (params, model_state), compute and _can_write(root)
    found = [_open_side(parts, *weights, items, each, compute=compute) for each in sides]
    return items.with_features(filter(None, found))


def _can_write(root: str) -> bool:
    """Whether the first process, which writes features, can write to a folder."""
    own = ""
    try:
        check_writable(root)
    except UserError as error:
        own = str(error)
    first = processes.gather("look whether features can be stored", own)[0]
    if first:
        message = "Evaluations compute frozen features again: %s (config.frozen_features.folder)"
        logging.log_first_n(logging.WARNING, message, 1, first)
    return not first


def _open_side(
    parts: Run,
    params: Tree,
    model_state: Tree,
    items: data.EvalSplit,
    side: str,
    *,
    compute: bool,
) -> data.FeatureReader | None:
    """Returns the features of one side; None if they are missing and not to be computed."""
    weights = mesh_lib.to_host(_weights(parts, params, model_state, side), parts.mesh)
    key = _key(parts, items, side, weights)
    folder = _folder(parts, items, side, key)
    # All processes decide alike, though some may not see the folder, or call it otherwise.
    stored = processes.gather(
        f"look for the features of the {side} side", str(os.path.isdir(folder))
    )
    if stored[0] == "False":
        if not compute:
            return None
        what = f"write the features of the {side} side"
        compute_them = functools.partial(_compute, folder, key, parts, items, side, weights)
        processes.first_does(what, compute_them)
    _check_visible(folder)
    return data.open_features(folder)


def _weights(
    parts: Run, params: Tree, model_state: Tree, side: str
) -> dict[str, dict[str, jax.Array]]:
    """Returns parameters and statistics that determine the features, by path under the side."""
    flat = flatten(params[side])
    paths = parts.model.towers[side].frozen_paths(params[side])
    statistics = {
        path: leaf for path, leaf in flatten(model_state[side]).items() if "/encoder/" in path
    }
    return {"params": {path: flat[path] for path in paths}, "state": statistics}


def _key(
    parts: Run, items: data.EvalSplit, side: str, weights: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, str]:
    """Returns hashes of the weights, the encoder's settings and the inputs, and the pooling."""
    digest = hashlib.sha256()
    for kind, arrays in weights.items():
        for path, array in sorted(arrays.items()):
            digest.update(f"{kind} {path} {array.shape} {array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data)
    settings = parts.settings
    # Texts have the run's tokenizer, whichever dataset they are from.
    section, of_run = (_input_section(each, side) for each in (items.config, settings.data))
    inputs = [sorted(items.hashes.items()), items.split, section]
    if section != of_run:
        inputs.append(of_run)
    if side == "text":
        inputs.append(data.load_vocabulary(settings.data, settings.train_split).identity)
        inputs.append(hashlib.sha256("\0".join(items.caption_texts).encode()).hexdigest())
    else:
        inputs.append(items.image_ids.tolist())
    encoder = json.dumps(settings.model[side]["encoder"], sort_keys=True, default=str)
    # Absent for all tokens, as in folders from before features were pooled.
    pooling = parts.model.towers[side].feature_pooling
    return {
        "weights": digest.hexdigest(),
        "encoder": hashlib.sha256(encoder.encode()).hexdigest(),
        "inputs": hashlib.sha256(json.dumps(inputs, default=str).encode()).hexdigest(),
    } | ({"pooling": pooling} if pooling else {})


def _input_section(config: data.DataConfig, side: str) -> str:
    if side == "image":
        return repr(config.image)
    # Its contents matter, not its path.
    return repr(dataclasses.replace(config.require_text(), vocabulary=""))


def _root(parts: Run, items: data.EvalSplit) -> str:
    return parts.settings.frozen_features.folder or os.fspath(items.folder)


def _folder(parts: Run, items: data.EvalSplit, side: str, key: Mapping[str, str]) -> str:
    root = _root(parts, items)
    check_folder(root)
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return os.path.join(root, f"{side}_features-{items.split}-{name}")


def _compute(
    folder: str,
    key: Mapping[str, str],
    parts: Run,
    items: data.EvalSplit,
    side: str,
    weights: Mapping[str, Mapping[str, np.ndarray]],
) -> None:
    tower = parts.model.towers[side]
    mesh = mesh_lib.make_mesh(jax.local_devices())
    params, statistics = jax.device_put(
        (unflatten(weights["params"]), unflatten(weights["state"])), mesh_lib.replicated(mesh)
    )

    on_cpu = mesh.devices.flat[0].platform == "cpu"
    batch_size = _CPU_IMAGES if side == "image" and on_cpu else _BATCH_SIZE

    def run(columns: Mapping[str, np.ndarray]) -> np.ndarray:
        size = -(-batch_size // mesh.size) * mesh.size
        rows = len(next(iter(columns.values())))
        padded = {name: mesh_lib.pad_rows(column, size) for name, column in columns.items()}
        placed = jax.device_put(padded, mesh_lib.batch_sharded(mesh))
        return np.asarray(_features(tower, params, statistics, placed))[:rows]

    is_pooled = bool(tower.feature_pooling)
    if side == "image":
        found = _image_features(items, run, batch_size, is_pooled)
    else:
        found = _text_features(items, run, is_pooled)
    count = len(items.image_ids) if side == "image" else len(items.caption_ids)
    logging.info("Computing features of %d items of the %s side into %s.", count, side, folder)
    started = time.monotonic()
    with progress(f"Computing features of {count:,} items of the {side} side", count) as advance:
        data.write_features(folder, tower.feature_column, key, _counted(found, advance))
    logging.info("Computed all features in %.0f s.", time.monotonic() - started)


@functools.partial(jax.jit, static_argnums=0)
def _features(
    tower: Tower, params: Tree, statistics: Tree, columns: Mapping[str, jax.Array]
) -> jax.Array:
    """Features bfloat16 [N, T, W] of a batch; compiled once for all splits."""
    (features,) = tower.frozen_features(params, statistics, columns).values()
    return features.astype(jnp.bfloat16)


def _image_features(
    items: data.EvalSplit, run: Any, batch_size: int, is_pooled: bool
) -> Iterator[np.ndarray]:
    """Yields the tokens [T, W] of every image, or its summands, in the order of the split."""
    for batch in items.images(batch_size):
        features = run({name: column for name, column in batch.items() if name != "image_id"})
        masks = None if is_pooled else batch.get("image_mask")
        for row, tokens in enumerate(features):
            yield tokens if masks is None else tokens[masks[row]]


def _text_features(items: data.EvalSplit, run: Any, is_pooled: bool) -> Iterator[np.ndarray]:
    """Yields the tokens [t, W] of every caption without padding, or its summands, in order."""
    window: list[Mapping[str, np.ndarray]] = []
    for batch in items.captions(_BATCH_SIZE):
        window.append(batch)
        if len(window) == _SORTED_BATCHES:
            yield from _sorted_text_features(window, run, is_pooled)
            window = []
    if window:
        yield from _sorted_text_features(window, run, is_pooled)


def _sorted_text_features(
    window: list[Mapping[str, np.ndarray]], run: Any, is_pooled: bool
) -> list[np.ndarray]:
    ids = np.concatenate([batch["text_ids"] for batch in window])
    mask = np.concatenate([batch["text_mask"] for batch in window]) > 0
    lengths = mask.sum(axis=1)
    found: list[np.ndarray] = [np.empty(0)] * len(ids)
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        longest = min(-(-int(lengths[rows].max()) // _LENGTH_STEP) * _LENGTH_STEP, ids.shape[1])
        columns = {"text_ids": ids[rows, :longest], "text_mask": mask[rows, :longest]}
        columns["text_mask"] = columns["text_mask"].astype(np.int32)
        for row, tokens in zip(rows, run(columns), strict=True):
            found[row] = tokens if is_pooled else tokens[: lengths[row]]
    return found


def _counted(arrays: Iterator[np.ndarray], advance: Callable[[int], None]) -> Iterator[np.ndarray]:
    for array in arrays:
        yield array
        advance(1)


def _check_visible(folder: str) -> None:
    """Raises an error if process 0 wrote to a file system that this process does not see."""
    started = time.monotonic()
    while not os.path.isdir(folder):
        # Shared file systems may need a while to show a new folder to other hosts.
        if time.monotonic() - started > _VISIBLE_SECONDS:
            raise UserError(
                f"Process 0 wrote {folder}, which process {jax.process_index()} on "
                f"{socket.gethostname()} does not see; set config.frozen_features.folder to a "
                "folder that all hosts share."
            )
        time.sleep(1.0)
