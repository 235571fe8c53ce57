"""A dual encoder over stored features and words, small enough to compile in a second."""

import jax
import numpy as np
from ml_collections import ConfigDict

from xmodal.api.model import Model
from xmodal.core import mesh as mesh_lib
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.models import make_dual_encoder
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.pair_functions import make_pair_functions
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig
from xmodal.train.tree import TrainState, split

FEATURES, WIDTH = 5, 4
WORDS = ["<pad>", "<start>", "<end>", "<unk>"]
WORDS += ["a", "red", "green", "star", "circle", "above", "the"]
TEXT = {"tokenizer": "ptb", "unknown": "token", "max_length": 20}
SECTION = {
    "image": {
        "encoder": {"name": "precomputed", "features": FEATURES},
        "head": {"name": "mean"},
        "projection": {"width": WIDTH},
    },
    "text": {
        "encoder": {"name": "words", "vocab_size": len(WORDS), "width": WIDTH},
        "head": {"name": "mean"},
    },
    "similarity": {"name": "cosine"},
}

CROSS_ENCODER = {"name": "matching_head", "width": 6, "depth": 1, "heads": 2, "mlp_dim": 8}


def make_weights(section=SECTION, features=(FEATURES,), draw=None):
    """Random `(params, model_state)` on the host."""
    model = make_dual_encoder(section)
    ids = np.ones((1, 3), np.int32)
    dtype = np.uint8 if len(features) == 3 else np.float32
    inputs = {
        "image": {"image": np.zeros((1, *features), dtype)},
        "text": {"text_ids": ids, "text_mask": ids},
    }
    shapes = jax.eval_shape(model.init, jax.random.key(0), inputs)
    draw = draw or np.random.default_rng(0).normal
    return jax.tree.map(lambda leaf: draw(size=leaf.shape).astype(np.float32), shapes)


def make_model(devices=8, *, text_head="mean", max_regions=0, cross_encoder=None, **similarity):
    """The model, and the weights behind it."""
    section = SECTION | ({"similarity": similarity} if similarity else {})
    section["text"] = SECTION["text"] | {"head": {"name": text_head}}
    section["cross_encoder"] = cross_encoder
    params, model_state = make_weights(section)
    encoders = make_dual_encoder(section)
    model = Model(
        "tiny",
        encoders,
        params,
        model_state,
        mesh=mesh_lib.make_mesh(jax.devices()[:devices]),
        images=ImageConfig(size=0, max_regions=max_regions),
        tokenizer=make_tokenizer(TextConfig(**TEXT), WORDS),
        pairs=make_pair_functions(encoders),
    )
    return model, params


def make_texts(count, seed=0):
    """Texts of 1 to 14 words, some of them unknown."""
    rng = np.random.default_rng(seed)
    known = [*WORDS[4:], "zebra"]
    return [" ".join(rng.choice(known, rng.integers(1, 15))) for _ in range(count)]


def save_run(
    folder,
    image=None,
    steps=(3, 5),
    section=SECTION,
    *,
    features=(FEATURES,),
    evals=None,
    text=TEXT,
    words=WORDS,
):
    """A run with a frozen table, parameters of a task, and checkpoints, of which 3 is the best."""
    config = {
        "name": "tiny",
        "model": section,
        "data": {"image": image or {"size": 0}, "text": text | {"vocabulary": ""}},
        "best_checkpoint": {"metric": "m", "mode": "max"},
        "evals": evals or {},
    }
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(every=1), BestCheckpointConfig("m"))
    for step in steps:
        params, model_state = make_weights(section, features)
        model_state = jax.tree.map(np.abs, model_state)  # Variances are positive.
        if "bias" in params["image"].get("projection", {}):
            params["image"]["projection"]["bias"] += step
        params["tasks"] = {"t": {"module": {"kernel": np.ones((2, 2), np.float32)}}}
        trained, frozen = split(params, lambda path: path.startswith("text/"))
        state = TrainState(np.int32(step), trained, frozen, model_state, {"count": np.int32(0)})
        metrics = {"m": 0.9 if step == 3 else 0.1}
        saver.save(jax.tree.map(np.asarray, state), metrics)
    saver.close()
    run_folder.save_config(folder, ConfigDict(config), words)
    return folder
