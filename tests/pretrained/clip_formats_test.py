"""CLIP and SigLIP in the formats of four publishers are the same arrays; bad files are named."""

import json

import numpy as np
import parity
import published_clip as published
import pytest

from tests.data.text.tiny_pieces import sentencepiece_model
from xmodal.core.errors import UserError
from xmodal.data.text.tokenizer_files import FILES
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import save_folder


def assert_equal(found, wanted, atol=0.0):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=atol, err_msg=name)


QUICK = {"embed_dim": 24, "quick_gelu": True, "vision_cfg": {"image_size": 24, "layers": 2,
         "width": 64, "head_width": 32, "patch_size": 8},
         "text_cfg": {"context_length": 12, "vocab_size": 517, "width": 64, "heads": 4,
                      "layers": 3}}  # fmt: skip
PIXELS = {"size": [24, 24], "mode": "RGB", "mean": published.COLORS[0], "std": published.COLORS[1],
          "interpolation": "bicubic", "resize_mode": "shortest"}  # fmt: skip


@pytest.mark.slow
def test_clip_of_openai_and_open_clip(torch, clip, tmp_path):
    """A scripted archive, state dicts, safetensors with a config, and a training checkpoint."""
    model, folder = clip
    wanted, description = published.convert("clip", folder)
    arrays = published.openai_arrays(published.arrays_of(model))
    merges = {"vocabulary": str(folder / "merges.txt")}

    sizes = {"input_resolution": 24, "context_length": 12, "vocab_size": 517}
    published.script(torch, arrays, tmp_path / "ViT-B-32.pt", **sizes)
    found, openai = published.convert("clip", tmp_path / "ViT-B-32.pt", **merges)
    assert_equal(found, wanted, atol=1e-3)  # Matrices are float16 there.
    assert openai.towers["image"].encoder["activation"] == "quick_gelu"
    assert openai.towers["image"].preprocessing == description.towers["image"].preprocessing

    config = {"model_cfg": QUICK, "preprocess_cfg": PIXELS}
    saved = published.write(tmp_path / "open", arrays, "open_clip_model.safetensors",
                            open_clip_config=config)  # fmt: skip
    found, open_clip = published.convert("clip", saved, **merges)
    assert_equal(found, wanted)
    assert open_clip == description

    tensors = {f"module.{name}": torch.tensor(np.array(array)) for name, array in arrays.items()}
    optimizer = {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]}
    checkpoint = {"epoch": 3, "name": "run", "state_dict": tensors, "optimizer": optimizer}
    torch.save(checkpoint, tmp_path / "epoch_3.pt")
    with pytest.raises(UserError, match="nothing in it names the activation .*--variant=quick_gel"):
        published.convert("clip", tmp_path / "epoch_3.pt", **merges)
    found, exact = published.convert("clip", tmp_path / "epoch_3.pt", variant="gelu", **merges)
    assert_equal(found, wanted)
    assert exact.towers["text"].encoder["activation"] == "gelu"
    # The widths decide without a config.
    assert exact.towers["image"].encoder["heads"] == 1


@pytest.mark.parametrize("stacked", [True, False])
def test_siglip_of_big_vision(siglip, tmp_path, stacked):
    model, folder = siglip
    wanted, description = published.convert("siglip", folder)
    heads = {"image": 2, "text": 4}
    arrays = published.big_vision_arrays(published.arrays_of(model), heads, stacked=stacked)
    np.savez(tmp_path / "siglip.npz", **arrays)
    pieces = str(folder / "spiece.model")
    found, made = published.convert("siglip", tmp_path / "siglip.npz", vocabulary=pieces)
    assert_equal(found, wanted)
    assert made.towers["image"].encoder["heads"] == 2
    assert made.towers["image"].preprocessing["eval_transform"] == "big_vision"
    assert made.towers["text"].encoder == description.towers["text"].encoder


def test_siglip_of_open_clip(siglip, tmp_path):
    model, folder = siglip
    wanted, description = published.convert("siglip", folder)
    arrays = published.timm_arrays(published.arrays_of(model))
    pieces = {"vocabulary": str(folder / "spiece.model")}
    text = {"heads": 4, "width": 64, "layers": 3, "norm_kwargs": {"eps": 1e-6}, "pool_type": "last"}
    images = {"timm_model_name": "vit_tiny_siglip", "timm_pool": "map", "image_size": 24}
    config = {"model_cfg": {"embed_dim": 64, "vision_cfg": images, "text_cfg": text}}
    source = published.write(tmp_path / "open", arrays, open_clip_config=config)
    with pytest.raises(UserError, match="names the activation .*--variant=gelu_tanh"):
        published.convert("siglip", source, **pieces)
    found, made = published.convert("siglip", source, variant="gelu_tanh", **pieces)
    assert_equal(found, wanted)
    assert made.towers["text"].encoder == description.towers["text"].encoder
    # SigLIP 2 in open_clip.
    towers = published.convert("siglip", source, variant="gelu_text_tanh", **pieces)[1].towers
    assert [towers[modality].encoder["activation"] for modality in towers] == ["gelu", "gelu_tanh"]
    assert towers["image"].head["activation"] == "gelu"
    # The text tower of So400m/16-i18n ends with its norm.
    bare = {name: array for name, array in arrays.items() if "text_projection" not in name}
    published.write(source, bare, open_clip_config=config)
    found, made = published.convert("siglip", source, variant="gelu_tanh", **pieces)
    assert made.towers["text"].projection is None
    assert_equal(found, {name: wanted[name] for name in wanted if "/projection/" not in name})


def test_patches_that_leave_out_pixels(torch, tmp_path):
    """As So400m/14 of 384 pixels, with 27 patches a side: its size comes from its files."""
    pieces = sentencepiece_model()
    model = published.make_siglip(torch, len(FILES["sentencepiece.model"](pieces)), pixels=29)
    model.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs/spiece.model").write_bytes(pieces)
    save_folder(tmp_path / "ours", *convert("siglip", tmp_path / "theirs"))
    images, ids = parity.images(2, 29), np.ones((2, published.TEXT), np.int32)
    _, description, found = parity.embed_converted(tmp_path / "ours", images, ids, ids)
    assert description.towers["image"].preprocessing["size"] == 29
    with torch.no_grad():
        pixels = (torch.tensor(images) / 127.5 - 1).permute(0, 3, 1, 2)
        expected = model.vision_model(pixel_values=pixels).pooler_output
    assert parity.relative(found["image"].vector, expected) < 1e-5
    # Arrays alone do not tell 384 from 378.
    heads = {"image": 2, "text": 4}
    arrays = published.big_vision_arrays(published.arrays_of(model), heads, stacked=True)
    ones = {"embedding/kernel": (14, 14, 3, 64), "pos_embedding": (1, 27 * 27, 64)}
    arrays |= {f"params/img/{name}": np.ones(shape, np.float32) for name, shape in ones.items()}
    np.savez(tmp_path / "so400m.npz", **arrays)
    words = {"vocabulary": str(tmp_path / "theirs/spiece.model")}
    image = published.convert("siglip", tmp_path / "so400m.npz", **words)[1].towers["image"]
    assert image.preprocessing["size"] == 384
    assert image.encoder["drops_rest"]


def test_files_of_transformers_say_how_images_are_read(clip, tmp_path):
    model, source = clip
    arrays, merges = published.arrays_of(model), str(source / "merges.txt")
    config = json.loads((source / "config.json").read_text())
    folder = published.write(tmp_path / "pictures", arrays, config=config)
    published.write(folder, arrays, preprocessor_config={"image_std": [1, 1, 1]})
    with pytest.raises(UserError, match=r"preprocessor_config.json normalizes .* std=\[1, 1, 1\]"):
        published.convert("clip", folder, vocabulary=merges)
    # Its name since version 5.
    (folder / "preprocessor_config.json").unlink()
    squash = {"size": {"height": 24, "width": 24}, "resample": 2}
    # Old files have a second section, which counts.
    config["vision_config_dict"] = {"hidden_act": "gelu"}
    published.write(folder, arrays, config=config, processor_config={"image_processor": squash})
    towers = published.convert("clip", folder, vocabulary=merges)[1].towers
    pixels = {"size": 24, "eval_transform": "squash_bilinear", "eval_crop": 1.0}
    assert towers["image"].preprocessing == pixels
    activations = [towers[modality].encoder["activation"] for modality in towers]
    assert activations == ["gelu", "quick_gelu"]
    with pytest.raises(UserError, match="trained with gelu and quick_gelu, not with --variant=gel"):
        published.convert("clip", folder, variant="gelu", vocabulary=merges)
