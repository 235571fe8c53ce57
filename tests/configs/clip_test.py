"""The sizes of CLIP and SigLIP, and the settings that fine-tuning takes from a published folder."""

import math

import jax
import numpy as np
import pytest

from configs import clip
from xmodal.models import make_dual_encoder
from xmodal.train.tree import flatten, matches

# Millions of parameters, as openai/CLIP has them, with the scale of the similarity.
MILLIONS = {
    "vit_b32": 151.28, "vit_l14_336": 427.94, "rn50": 102.01, "rn50x4": 178.30
}  # fmt: skip


def model_shapes(config, vocab_size):
    model = config.model.to_dict()
    model["text"]["encoder"]["vocab_size"] = vocab_size
    size, length = config.data.image.size, config.data.text.max_length
    ids = jax.ShapeDtypeStruct((1, length), np.int32)
    inputs = {
        "image": {"image": jax.ShapeDtypeStruct((1, size, size, 3), np.uint8)},
        "text": {"text_ids": ids, "text_mask": ids},
    }
    return flatten(jax.eval_shape(make_dual_encoder(model).init, jax.random.key(0), inputs)[0])


def count(shapes, pattern=""):
    return sum(math.prod(leaf.shape) for path, leaf in shapes.items() if matches([pattern], path))


@pytest.mark.parametrize("name", MILLIONS)
def test_sizes_are_those_of_openai(name):
    shapes = model_shapes(clip.get_config(name), 49_408)
    assert round(count(shapes) / 1e6, 2) == MILLIONS[name]


def test_a_siglip_has_the_layers_of_big_vision():
    """ViT-B/16 without the classes, a probe's layer, and 12 layers over 32,000 pieces."""
    shapes = model_shapes(clip.get_config("siglip_b16"), 32_000)
    layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768
    norms, head = 12 * 4 * 768 + 2 * 768, layer + 2 * 768 + 768
    assert count(shapes, "image/") == (
        12 * layer + norms + head + (16 * 16 * 3 + 1 + 196) * 768
    )  # fmt: skip
    assert count(shapes, "text/") == 12 * layer + norms + (32_000 + 64) * 768 + 768 * 768 + 768
    assert sorted(path for path in shapes if path.startswith("sim")) == [
        "similarity/bias", "similarity/log_scale"
    ]  # fmt: skip
