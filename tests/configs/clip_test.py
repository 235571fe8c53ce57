"""The sizes of CLIP and SigLIP, and the settings that fine-tuning takes from a published folder."""

import math

import jax
import numpy as np
import pytest

from configs import clip, clip_finetune
from tests.api.converted_models import PIECES, save_converted
from xmodal.core import mesh as mesh_lib
from xmodal.models import make_dual_encoder
from xmodal.train.inherit import inherit
from xmodal.train.initialization import from_towers
from xmodal.train.resolve import build_run, fill
from xmodal.train.sections import InitConfig
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


def test_the_size_of_so400m_leaves_pixels_out():
    shapes = model_shapes(clip.get_config("siglip_so400m14_384"), 32_000)
    assert shapes["image/encoder/position_embeddings"].shape == (27 * 27, 1152)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    section = clip.get_config("quick").model.to_dict()
    section["text"]["encoder"]["vocab_size"] = len(PIECES)
    return save_converted(tmp_path_factory.mktemp("weights") / "clip", section)


def test_any_folder_brings_its_own_settings(folder):
    config = clip.get_config()
    config.init_from.model = str(folder)
    filled = inherit(config)
    assert filled.model.image.encoder.patch == 8
    assert filled.model.similarity.max_logit_scale == 100
    assert (filled.data.image.size, filled.data.text.max_length) == (32, 20)
    assert filled.data.text.vocabulary == f"{folder}/text/vocab.txt"


def test_pictures_keep_a_size_that_is_set_and_other_changes_are_said(folder, caplog):
    config = clip.get_config()
    config.init_from.model, config.data.image.size = str(folder), 48
    with caplog.at_level("INFO"):
        assert inherit(config).data.image.size == 48
    assert "image.size" not in caplog.text
    assert "config.data.text.max_length is 32, the weights have 20" in caplog.text


def build(argument, folder):
    config = clip_finetune.get_config(argument)
    config.init_from.model = str(folder)
    filled = fill(inherit(config), 1000)
    parts = build_run(filled, mesh_lib.make_mesh(jax.devices()[:1]))
    source = InitConfig(model=str(folder))
    return (
        parts,
        flatten(parts.state_shapes.params),
        from_towers.load_towers(parts.state_shapes, source),
    )


def test_fine_tuning_starts_from_the_folder_and_may_learn_a_bias(folder):
    parts, trained, weights = build("sigmoid", folder)
    assert set(trained) - set(weights.params) == {"similarity/bias"}
    assert parts.model.similarity.config.bias == 0
    groups = parts.settings.optimizer.read_groups()
    assert groups["image"].frozen_until == 3  # 1 epoch of 1,000 / 256
    assert groups["image"].layer_decay == groups["text"].layer_decay == 0.7
    decayed = [
        path for path in trained if matches([parts.settings.optimizer.weight_decay.pattern], path)
    ]
    kept = sorted({path.rsplit("/", 1)[-1] for path in set(trained) - set(decayed)})
    assert kept == ["bias", "class_token", "log_scale", "scale"]
    assert {path.rsplit("/", 1)[-1] for path in decayed} == {
        "kernel", "position_embeddings", "word_embeddings"
    }  # fmt: skip


@pytest.mark.parametrize("argument", ["locked", "t2t"])
def test_a_locked_image_side_keeps_its_weights(folder, argument):
    parts, trained, _ = build(argument, folder)
    assert not [path for path in trained if path.startswith("image/")]
    assert "similarity/log_scale" in trained
    views = {view for task in parts.settings.tasks.values() for view in task["views"]}
    assert ("image" in views) == (argument == "locked")
