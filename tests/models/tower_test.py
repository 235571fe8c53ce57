"""Shapes of every encoder with every head, and the parts that are frozen."""

import jax
import numpy as np
import pytest

from xmodal.models import ENCODERS, HEADS, make_tower

TEXT = {"text_ids": np.ones((2, 5), np.int32), "text_mask": np.ones((2, 5), np.int32)}
PIXELS = {"image": np.zeros((2, 80, 80, 3), np.uint8)}
PATCHES = {"image": np.zeros((2, 5, 12), np.uint8)}
REGIONS = {"image": np.zeros((2, 3, 6), np.float16), "image_mask": np.ones((2, 3), bool)}
ENCODER_OPTIONS = {
    "bert": ({"vocab_size": 19, "width": 8, "depth": 2, "heads": 2, "mlp_dim": 12}, TEXT, 8),
    "convnet": ({"channels": (4, 6), "units": (0, 1)}, PIXELS, 6),
    "efficientnet": ({"width": 0.25, "depth": 0.25}, PIXELS, 320),
    "inception_v3": ({}, PIXELS, 2048),
    "mobilenet_v2": ({"width": 0.35}, PIXELS, 1280),
    "modified_resnet": ({"width": 4, "units": (1, 1)}, PIXELS, 32),
    "patch_tokens": ({"patch": 2, "width": 8, "grid": 2}, PATCHES, 8),
    "precomputed": ({"features": (3, 6), "hidden": (8,)}, REGIONS, 8),
    "region_tokens": ({"features": 6, "width": 8}, REGIONS, 8),
    "resnet": ({}, PIXELS, 2048),
    "rnn": ({"vocab_size": 9, "width": 4, "bidirectional": True}, TEXT, 8),
    "text_transformer": (
        {"vocab_size": 9, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12},
        TEXT,
        8,
    ),
    "textcnn": ({"vocab_size": 9, "windows": (2, 3), "maps": 4, "embedding_width": 6}, TEXT, 8),
    "token_ids": ({"vocab_size": 9}, TEXT, 1),
    "vit": ({"patch": 16, "width": 8, "depth": 2, "heads": 2, "mlp_dim": 12}, PIXELS, 8),
    "words": ({"vocab_size": 9, "width": 8}, TEXT, 8),
}
HEAD_OPTIONS = {
    "attention_pool": {"width": 6, "heads": 2},
    "gaussian": {"width": 6},
    "gpo": {"width": 6},
    "graph": {"width": 6},
    "multihead_attention_pool": {"heads": 2, "mlp_dim": 8},
    "pie": {"width": 6},
    "transformer": {"width": 6, "heads": 2, "mlp_dim": 8, "depth": 2},
}


# One of each kind of tokens: those of texts, of the cells of images, of regions with a mask. Heads
# read nothing else, so that two of them, without and with parameters, are enough after the others.
EVERY_HEAD = ("bert", "convnet", "precomputed")


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_head_follows_every_encoder(encoder, few_stages):
    options, inputs, width = ENCODER_OPTIONS[encoder]
    heads = HEADS if encoder in EVERY_HEAD else ["mean", "gaussian"]
    if encoder == "token_ids":
        heads = ["none"]  # Its tokens are no vectors.
    for head in heads:
        if head in ("flatten", "consensus"):
            continue  # They have other widths; see their tests.
        if head == "attention_pool" and inputs is not PIXELS:
            continue  # It pools the cells of images.
        modality = {
            "encoder": {"name": encoder, **options},
            "head": {"name": head, **HEAD_OPTIONS.get(head, {})},
        }
        tower = make_tower("modality", modality)
        params, state = jax.eval_shape(tower.init, jax.random.key(0), inputs)

        def train(params, state, key, tower=tower):
            return tower.apply(params, state, inputs, train=True, key=key)

        embedding, new_state = jax.eval_shape(train, params, state, jax.random.key(0))
        several = {"gaussian": (2, 7, 6), "none": (2, 0), "pie": (2, 2, 6)}
        shape = several.get(head, (2, HEAD_OPTIONS.get(head, {}).get("width", width)))
        assert (embedding.vector.shape, embedding.vector.dtype) == (shape, np.float32)
        assert jax.tree.structure(new_state) == jax.tree.structure(state)
        assert set(params) <= {"encoder", "head"}
