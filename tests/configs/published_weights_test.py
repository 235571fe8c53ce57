"""The configs match the published weights that their headers name."""

import json

import numpy as np
import pytest
import safetensors.numpy

from configs import (
    cc_pretrain,
    cmcm_clue,
    cxc_image_text,
    cxc_multitask,
    cxc_text_text,
    finetune,
    flickr8k,
    own_data,
    pcme,
    vete,
    vsepp,
)
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.train.inherit import inherit
from xmodal.train.resolve import build_run, fill
from xmodal.train.tree import flatten

SCALED = {"normalization": "imagenet", "size": 380}
TOWERS = {
    "b4": ({"name": "efficientnet", "variant": "b4"}, None, SCALED),
    "resnet50": ({"name": "resnet", "depth": 50, "variant": "torchvision"}, None, {"size": 224}),
    "resnet152": ({"name": "resnet", "depth": 152, "variant": "torchvision"}, None, {"size": 224}),
    "inception": ({"name": "inception_v3"}, None, {"normalization": "inception", "size": 299}),
    "mobilenet": (
        {"name": "mobilenet_v2", "width": 1.0, "folded": True}, None,
        {"normalization": "inception", "size": 224},
    ),
    "bert": (
        {
            "name": "bert", "vocab_size": 30522, "width": 768, "depth": 12, "heads": 12,
            "mlp_dim": 3072, "max_positions": 512,
        },
        None, {"tokenizer": "wordpiece", "lower_case": True, "max_length": 512},
    ),
    "minilm": (
        {
            "name": "bert", "vocab_size": 30522, "width": 384, "depth": 6, "heads": 12,
            "mlp_dim": 1536, "max_positions": 512,
        },
        {"name": "mean"}, {"tokenizer": "wordpiece", "lower_case": True, "max_length": 256},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def towers(tmp_path_factory):
    """Folders that `xmodal.apps.convert` would write for published weights, without weights."""
    root = tmp_path_factory.mktemp("weights")
    for name, (encoder, head, preprocessing) in TOWERS.items():
        folder = root / name
        folder.mkdir()
        content = {"encoder": encoder, "head": head, "preprocessing": preprocessing}
        (folder / "tower.json").write_text(json.dumps(content))
        safetensors.numpy.save_file({"params/x": np.ones(1)}, folder / "weights.safetensors")
        if encoder["name"] == "bert":
            (folder / "vocab.txt").write_text("".join(f"{i}\n" for i in range(30522)))
    return root


@pytest.mark.parametrize(
    ("module", "argument", "image", "text"),
    [
        (cc_pretrain, "", "b4", "bert"),
        (cxc_image_text, "", "b4", "bert"),
        (cxc_multitask, "", "b4", "bert"),
        (cxc_text_text, "", "", "bert"),
        (cxc_text_text, "minilm", "", "minilm"),
        (flickr8k, "pretrained", "", "minilm"),
        (vete, "", "inception", ""),
        (vsepp, "", "resnet152", ""),
        (pcme, "", "resnet152", ""),
        (cmcm_clue, "", "resnet50", ""),
    ],
)
def test_the_header_names_all_that_is_needed(towers, module, argument, image, text):
    config = module.get_config(argument)
    config.init_from.towers.image = str(towers / image) if image else ""
    config.init_from.towers.text = str(towers / text) if text else ""
    filled = inherit(config)
    assert filled.data.text.vocabulary == (f"{towers}/{text}/vocab.txt" if text else "")
    for side in ("image", "text"):
        folder = config.init_from.towers[side]
        if folder:
            assert f"--config.init_from.towers.{side}=" in module.__doc__ or argument
            # Only keys that a config may omit are added.
            assert filled.model[side].head == config.model[side].head
        else:
            assert filled.model[side] == config.model[side]
    wanted = [f"{side}/encoder/" for side in ("image", "text") if config.init_from.towers[side]]
    if module is not flickr8k:
        assert set(wanted) <= set(config.init_from.published)
    assert module.get_config("quick" if module is not flickr8k else "").init_from.published == ()


@pytest.mark.parametrize("named", ["image", "text", "both"])
def test_a_named_tower_takes_the_place_of_a_small_one(named, towers):
    config = own_data.get_config()
    sides = ("image", "text") if named == "both" else (named,)
    names = {"image": "mobilenet", "text": "minilm"}
    config.init_from.towers.update({side: str(towers / names[side]) for side in sides})
    filled = inherit(own_data.complete(config))
    encoders = {side: filled.model[side].encoder.name for side in ("image", "text")}
    assert encoders == {
        "image": "mobilenet_v2" if "image" in sides else "efficientnet",
        "text": "bert" if "text" in sides else "words",
    }
    assert filled.data.image.size == (224 if "image" in sides else 32)
    assert filled.data.text.tokenizer == ("wordpiece" if "text" in sides else "nltk")
    assert filled.data.text.max_length == (48 if "text" in sides else 64)
    rates = {side: filled.optimizer.groups[f"{side}_tower"].rate for side in ("image", "text")}
    assert rates == {side: 0.1 if side in sides else 1.0 for side in ("image", "text")}


def test_frozen_towers_of_own_data(towers):
    config = own_data.get_config("frozen")
    config.init_from.towers = {"image": str(towers / "mobilenet"), "text": str(towers / "minilm")}
    filled = fill(inherit(config), 300)
    parts = build_run(filled, mesh_lib.make_mesh())
    assert {path.rsplit("/", 1)[0] for path in flatten(parts.state_shapes.params)} == {
        "image/projection", "text/projection"
    }  # fmt: skip
    assert parts.optimizer  # whose groups have parameters
    config.init_from.towers.image = ""
    with pytest.raises(
        UserError, match=r"name the folder of a tower in config.init_from.towers.im"
    ):
        inherit(config)


def test_finetuning_needs_the_two_folders_alone(towers):
    config = finetune.get_config()
    config.init_from.towers = {"image": str(towers / "mobilenet"), "text": str(towers / "minilm")}
    filled = inherit(config)
    assert filled.model.image.encoder.to_dict() == TOWERS["mobilenet"][0] | {
        "normalization": "inception"
    }
    assert filled.model.text.encoder.to_dict() == TOWERS["minilm"][0]
    assert {side: filled.model[side].head.name for side in ("image", "text")} == {
        "image": "mean", "text": "mean"
    }  # fmt: skip
    assert filled.data.image.size == 224
    text = filled.data.text
    assert (text.tokenizer, text.lower_case, text.max_length) == ("wordpiece", True, 48)
    assert text.vocabulary == f"{towers}/minilm/vocab.txt"
    assert build_run(fill(filled, 640), mesh_lib.make_mesh()).settings.data.text.unknown == "drop"
