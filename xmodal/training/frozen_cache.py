"""What the frozen lower part of the text tower gives, computed once for all captions.

`config.frozen_cache` names a folder; "" turns the cache off. Captions are never augmented, so a
frozen layer gives the same numbers every time a caption is drawn. They are computed before the
first step, kept as bfloat16 and read by training in place of the token ids. Evaluation runs the
whole tower.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from absl import logging

from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.models import DualEncoder, Tower, make_dual_encoder
from xmodal.training import feature_store
from xmodal.training.state import TrainState, flatten, unflatten

if TYPE_CHECKING:
    from xmodal.training.preflight import Parts

Batches = Iterator[dict[str, np.ndarray]]

# Captions of about equal length are computed together, padded to a multiple of this.
_LENGTH_STEP = 8
_POLL_SECONDS = 1.0
_LOG_SECONDS = 15.0


def check(
    config: ml_collections.ConfigDict, model: DualEncoder, example_inputs: Mapping[str, Any]
) -> None:
    """Refuses a cache of what changes while the run trains.

    Raises:
      UserError: the text tower has no lower part, a parameter of it is trained or it drops at
        random, or the folder cannot be memory-mapped.
    """
    if "://" in config.frozen_cache:
        raise UserError(
            f"config.frozen_cache={config.frozen_cache!r} cannot be memory-mapped; give a folder "
            "of a file system that every process sees, or '' for no cache."
        )
    if any(os.path.isfile(path) for path in (config.frozen_cache, _folder(config))):
        raise UserError(
            f"config.frozen_cache={config.frozen_cache!r} is a file or holds a file 'text'; give "
            "a new folder, or one that an earlier run made."
        )
    tower = model.towers.get("text")
    if tower is None or not hasattr(tower.module, "features"):
        raise UserError(
            "config.frozen_cache keeps what the frozen part of a BERT gives, and config.model.text "
            "is none; set config.frozen_cache=''."
        )
    # A vocabulary whose size is not known yet (0) would leave nothing to look up.
    text = dict(config.model.text.items())
    text["vocab_size"] = text.get("vocab_size") or 1
    tower = make_dual_encoder({"text": text}).towers["text"]
    shapes, _ = jax.eval_shape(tower.init, jax.random.key(0), example_inputs["text"])
    for path in _lower_part(tower, {"text": shapes}):
        if not any(re.match(pattern, path) for pattern in config.freeze):
            raise UserError(
                f"config.frozen_cache keeps what {path} gives, but it is trained: match it by "
                "config.freeze, or set config.frozen_cache=''. With config.model.text.lower_depth "
                "only BERT's embeddings and that many layers have to be frozen."
            )
    if dropout := tower.module.bert.dropout:
        raise UserError(
            f"config.model.text.dropout={dropout} changes what the frozen layers give at every "
            "step; set it to 0, or config.frozen_cache=''."
        )


def feature_shape(tower: Tower, inputs: Any) -> tuple[int, ...]:
    """Shape of the features of `inputs`; nothing is computed."""
    return jax.eval_shape(
        lambda: tower.features(*tower.init(jax.random.key(0), inputs), inputs)
    ).shape


def open_or_build(parts: "Parts", state: TrainState) -> feature_store.FeatureStore:
    """Opens the features of the training captions; computes them first if there are none.

    The first process computes and writes; others wait until the folder appears.

    Raises:
      UserError: the folder holds features of other weights, captions or another tokeniser.
    """
    config, folder = parts.config, _folder(parts.config)
    captions = data.split_captions(config.data, split=config.splits.train)
    tower = parts.model.towers["text"]
    weights = mesh_lib.to_host(_lower_part(tower, state.all_params()), parts.mesh)
    key = _key(tower, weights, captions)
    if not os.path.isdir(folder):
        if jax.process_index() == 0:
            _build(folder, key, parts, weights, captions)
        else:
            _wait(folder)
    store = feature_store.FeatureStore(folder)
    if differs := [name for name in key if store.key.get(name) != key[name]]:
        raise UserError(
            f"{folder} was made with other {' and '.join(differs)} than this run has; give another "
            "config.frozen_cache, or delete that folder to have it made again."
        )
    logging.info("Features of %d captions from %s.", len(store.ids), folder)
    return store


def _folder(config: ml_collections.ConfigDict) -> str:
    return os.path.join(config.frozen_cache, "text")


def replace_ids(batches: Batches, store: feature_store.FeatureStore) -> Batches:
    """Gives batches `text_features` bfloat16 [b, C, T, W] in place of `text_ids`."""
    for batch in batches:
        features = store.gather(batch["caption_id"], batch["text_mask"])
        yield {name: value for name, value in batch.items() if name != "text_ids"} | {
            "text_features": features
        }


def _lower_part(tower: Tower, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `Bert`'s lower part by path."""
    bert = {path: leaf for path, leaf in flatten(params).items() if path.startswith("text/bert/")}
    if not tower.module.bert.lower_depth:
        return bert
    return {path: leaf for path, leaf in bert.items() if not path.startswith("text/bert/layers/")}


def _key(
    tower: Tower, weights: Mapping[str, np.ndarray], captions: data.SplitCaptions
) -> dict[str, str]:
    digest = hashlib.sha256()
    for path, leaf in sorted(weights.items()):
        digest.update(f"{path} {leaf.shape} {leaf.dtype}".encode())
        digest.update(np.ascontiguousarray(leaf))
    return {
        "weights": digest.hexdigest(),
        "captions": captions.digest,
        "tokeniser": captions.tokeniser_digest,
        "heads": str(tower.module.bert.heads),
        "dtype": jnp.dtype(tower.module.bert.dtype).name,
    }


def _build(
    folder: str,
    key: Mapping[str, str],
    parts: "Parts",
    weights: Mapping[str, np.ndarray],
    captions: data.SplitCaptions,
) -> None:
    tower, inputs = parts.model.towers["text"], parts.example_inputs["text"]
    mesh = mesh_lib.make_mesh(jax.local_devices())
    params = jax.device_put(unflatten(weights)["text"], mesh_lib.replicated(mesh))

    @jax.jit
    def compute(params: Any, inputs: Any) -> jax.Array:
        return tower.features(params, {}, inputs).astype(jnp.bfloat16)

    pieces, lengths = captions.tokens()
    width = feature_shape(tower, inputs)[-1]
    rows = int(lengths.sum())
    logging.info(
        "Computing features of %d captions (%.1f tokens each, %.2f GiB) into %s.",
        len(lengths),
        rows / len(lengths),
        rows * width * feature_store.DTYPE.itemsize / 2**30,
        folder,
    )
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    size = -(-parts.config.evaluation.batch_size // mesh.size) * mesh.size
    started = logged = time.monotonic()
    done = 0
    with feature_store.writing(folder, key, captions.ids, rows, width) as writer:
        for places, padded in _batches(lengths, size, inputs["text_mask"].shape[-1]):
            mask = np.zeros((size, padded), bool)
            mask[: len(places)] = np.arange(padded) < lengths[places, None]
            ids = np.zeros(mask.shape, np.int32)
            ids[mask] = pieces[(starts[places, None] + np.arange(padded))[mask[: len(places)]]]
            batch = {"text_ids": ids, "text_mask": mask.astype(np.int32)}
            batch = jax.device_put(batch, mesh_lib.batch_sharded(mesh))
            features = np.asarray(compute(params, batch))
            writer.put(places, features[: len(places)], mask[: len(places)])
            done += len(places)
            if (now := time.monotonic()) - logged > _LOG_SECONDS:
                speed, logged = done / (now - started), now
                logging.info("%d of %d captions, %.0f per second.", done, len(lengths), speed)
    logging.info("Computed all features in %.0f s.", time.monotonic() - started)


def _batches(lengths: np.ndarray, size: int, longest: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yields items of about equal length and what to pad them to; every item once."""
    padded = np.minimum(-(-lengths // _LENGTH_STEP) * _LENGTH_STEP, longest)
    for length in np.unique(padded):
        places = np.flatnonzero(padded == length)
        for start in range(0, len(places), size):
            yield places[start : start + size], int(length)


def _wait(folder: str) -> None:
    started = logged = time.monotonic()
    while not os.path.isdir(folder):
        time.sleep(_POLL_SECONDS)
        if (now := time.monotonic()) - logged > 4 * _LOG_SECONDS:
            logged = now
            logging.info("Waiting for process 0 to write %s (%.0f s).", folder, now - started)
