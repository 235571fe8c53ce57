"""Folders of converted models with random weights: several embeddings per item, or pixels."""

import functools

import jax
import numpy as np

from tests.api.tiny_dual_encoder import TEXT, WORDS, make_weights
from xmodal.core.tree_paths import leaves_by_path
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import Description, ModelDescription, save_folder

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "star", "##s", "above", "the", "circle"]
WORD_ENCODER = {"name": "words", "vocab_size": len(WORDS), "width": 4}
REGIONS = {"name": "precomputed", "features": (3, 6)}
BERT = {"name": "bert", "vocab_size": 11, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12}
MODELS = {
    "pcme": {
        "image": {"encoder": REGIONS, "head": {"name": "gaussian", "width": 5, "samples": 3}},
        "text": {"encoder": WORD_ENCODER, "head": {"name": "gaussian", "width": 5, "samples": 3}},
        "similarity": {"name": "match_probability"},
    },
    "pixels": {
        "image": {
            "encoder": {"name": "efficientnet", "width": 0.1, "depth": 0.1},
            "head": {"name": "mean"},
            "projection": {"width": 5, "batch_norm": True},
        },
        "text": {"encoder": BERT, "head": {"name": "cls"}, "projection": {"width": 5}},
        "similarity": {"name": "cosine"},
    },
}


def save_converted(folder, section, draw=None):
    """A folder of a converted model with random weights; by default from 0.1 to 0.5."""
    pixels = section["image"]["encoder"]["name"] != "precomputed"
    draw = draw or functools.partial(np.random.default_rng(0).uniform, 0.1, 0.5)
    params, state = make_weights(section, (32, 32, 3) if pixels else (3, 6), draw)
    state = jax.tree.map(np.abs, state)  # Variances are positive.
    arrays = {
        f"{modality}/{name}": array
        for modality in ("image", "text")
        for name, array in leaves_by_path({"params": params[modality], **state[modality]}).items()
    }
    text = {"tokenizer": "wordpiece", "max_length": 20} if pixels else TEXT
    vocabulary = "".join(f"{token}\n" for token in (PIECES if pixels else WORDS)).encode()
    preprocessing = {"image": {"size": 32} if pixels else {"size": 0}, "text": text}
    modalities = {
        modality: Description(
            section[modality]["encoder"],
            section[modality]["head"],
            preprocessing[modality],
            {"vocab.txt": vocabulary} if modality == "text" else {},
            section[modality].get("projection"),
        )
        for modality in ("image", "text")
    }
    numbers = {name: float(value) for name, value in params.get("similarity", {}).items()}
    description = ModelDescription(modalities, section["similarity"], numbers)
    save_folder(folder, arrays, description, Report({}, {}, [], {}))
    return folder
