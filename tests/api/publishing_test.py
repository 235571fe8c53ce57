"""Models go back to transformers and open_clip, which load them and compute the same."""

import dataclasses
import json

import numpy as np
import PIL.Image
import pytest
import safetensors.numpy

import xmodal
from tests.api import converted_models, tiny_dual_encoder
from tests.data.text.tiny_pieces import sentencepiece_model
from tests.pretrained import published_clip as published
from xmodal.api import publishing
from xmodal.api.model_sources import read_folder
from xmodal.api.publishing import export_published
from xmodal.apps import export
from xmodal.core.errors import UserError
from xmodal.data.text.tokenizer_files import FILES, parse_file
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import read_model, save_folder

SIZES = {"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 80,
         "num_hidden_layers": 2}  # fmt: skip
PICTURE = {"image_size": 24, "patch_size": 8}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "at", "##s", "hat"]
TEXTS = ["the cat", "The  HATS at the cat", "", "zebra the"]
RNG = np.random.default_rng(0)
PICTURES = [PIL.Image.fromarray(RNG.integers(0, 256, (24, 24, 3), np.uint8)) for _ in range(4)]
OTHER_SIZE = PIL.Image.fromarray(RNG.integers(0, 256, (40, 31, 3), np.uint8))
# Kind -> class, and keywords that leave out what a converter does not read.
KINDS = {
    "clip": ("CLIPModel", {}),
    "siglip": ("SiglipModel", {}),
    "bert": ("BertModel", {"add_pooling_layer": False}),
    "vit": ("ViTModel", {"add_pooling_layer": False}),
    "blip": ("BlipForImageTextRetrieval", {}),
    "vilt": ("ViltForImageAndTextRetrieval", {}),
}


@pytest.fixture(scope="module")
def torch():
    pytest.importorskip("transformers", reason="the library that reads the folders")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make(torch, kind, folder):
    """A published folder of a tiny model."""
    import transformers

    if kind == "clip":
        model = published.make_clip(torch)
    elif kind == "siglip":
        model = published.make_siglip(
            torch, len(FILES["sentencepiece.model"](sentencepiece_model()))
        )
    else:
        words = {**SIZES, "vocab_size": len(WORDS), "max_position_embeddings": 36}
        epsilon = {"layer_norm_eps": 1e-12}
        config = {
            "bert": lambda: transformers.BertConfig(**words),
            "vit": lambda: transformers.ViTConfig(**SIZES, **PICTURE),
            "blip": lambda: transformers.BlipConfig(
                text_config={**words, "vocab_size": len(WORDS) + 2, "encoder_hidden_size": 64},
                vision_config={**SIZES, **PICTURE, "layer_norm_eps": 1e-6},
                image_text_hidden_size=10,
            ),
            "vilt": lambda: transformers.ViltConfig(**words, **PICTURE, **epsilon),
        }[kind]()
        name, options = KINDS[kind]
        model = getattr(transformers, name)(config, **options)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    if kind == "clip":
        (folder / "merges.txt").write_text(published.MERGES)
    elif kind == "siglip":
        (folder / "spiece.model").write_bytes(sentencepiece_model())
    else:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    return folder


def read(folder):
    return safetensors.numpy.load_file(next(folder.glob("*.safetensors")))


def assert_same_arrays(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].shape == array.shape, name


def open_theirs(folder, kind):
    """The model of transformers, all of whose arrays are in the folder, and its processor."""
    import transformers

    name, options = KINDS[kind]
    cls = getattr(transformers, name)
    model, info = cls.from_pretrained(folder, output_loading_info=True, **options)
    assert not any(info.values()), info
    tokens = images = None
    if kind != "vit":
        tokens = transformers.AutoTokenizer.from_pretrained(folder)
    if kind != "bert":
        images = transformers.AutoImageProcessor.from_pretrained(folder)
    return model.eval(), tokens, images


def their_outputs(torch, kind, model, inputs):
    """Vectors of images and texts, or scores of pairs."""
    with torch.no_grad():
        if kind in ("clip", "siglip"):
            found = model(**inputs)
            return {"images": found.image_embeds, "texts": found.text_embeds}
        if kind == "vilt":
            return {"pairs": model(**inputs).logits[:, 0]}
        if kind == "vit":
            return {"images": model(**inputs).last_hidden_state.mean(1)}
        if kind == "bert":
            return {"texts": model(**inputs).last_hidden_state[:, 0]}
        words, pixels = inputs["input_ids"].clone(), inputs["pixel_values"]
        image = model.vision_proj(model.vision_model(pixels).last_hidden_state[:, 0])
        mask = {"attention_mask": inputs["attention_mask"]}
        text = model.text_encoder(input_ids=words, **mask).last_hidden_state[:, 0]
        words[:, 0] = model.config.text_config.vocab_size - 1  # [ENC].
        pairs = model(input_ids=words, pixel_values=pixels, **mask).itm_score[:, 1]
        return {"images": image, "texts": model.text_proj(text), "pairs": pairs}


def our_outputs(kind, model):
    found = {}
    if kind in ("blip", "vilt"):
        found["pairs"] = model.score_pairs(PICTURES, TEXTS)
    if kind not in ("bert", "vilt"):
        found["images"] = np.asarray(model.embed_images(PICTURES))
    if kind not in ("vit", "vilt"):
        found["texts"] = np.asarray(model.embed_texts(TEXTS))
    return found


SLOW = ("blip", "vilt")


@pytest.mark.parametrize(
    "kind", [pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else []) for x in KINDS]
)
def test_a_model_of_transformers_comes_back(torch, kind, tmp_path):
    """Arrays, ids, pixels and outputs, by the library's own classes."""
    source = make(torch, kind, tmp_path / "published")
    save_folder(tmp_path / "ours", *convert(kind, source))
    export_published(tmp_path / "ours", tmp_path / "back", library="transformers")
    wanted, found = read(source), read(tmp_path / "back")
    if kind == "blip":  # The row of [DEC] is not read.
        wanted["text_encoder.embeddings.word_embeddings.weight"][len(WORDS)] = 0
    assert_same_arrays(found, wanted)

    theirs, tokens, images = open_theirs(tmp_path / "back", kind)
    ours, inputs = xmodal.load(tmp_path / "ours"), {}
    if tokens is not None:
        inputs |= tokens(TEXTS, padding="max_length", truncation=True, return_tensors="pt")
        if kind != "vilt":
            ids, mask = ours.tokenize(TEXTS)
            np.testing.assert_array_equal(np.where(mask, inputs["input_ids"], 0), ids * mask)
    if images is not None:
        inputs |= images(PICTURES, return_tensors="pt")
    expected = our_outputs(kind, ours)
    for name, output in their_outputs(torch, kind, theirs, inputs).items():
        output, limit = output.numpy(), 1e-5 * max(1, np.abs(expected[name]).max())
        if kind in ("clip", "siglip"):
            expected[name] /= np.linalg.norm(expected[name], axis=-1, keepdims=True)
        np.testing.assert_allclose(output, expected[name], rtol=0, atol=limit, err_msg=name)


def open_clip_outputs(torch, folder):
    """Vectors of open_clip's own model, from its tokenizer's ids and equal pixels."""
    library = published.open_clip()
    model, *_ = library.create_model_and_transforms(f"local-dir:{folder}")
    ids = library.get_tokenizer(f"local-dir:{folder}")(TEXTS)
    config = json.loads((folder / "open_clip_config.json").read_text())["preprocess_cfg"]
    pixels = np.stack([np.asarray(picture) for picture in PICTURES]) / 255
    pixels = (pixels - config["mean"]) / config["std"]
    pixels = torch.tensor(pixels.transpose(0, 3, 1, 2), dtype=torch.float32)
    with torch.no_grad():
        found = model.eval().encode_image(pixels), model.encode_text(ids)
    return model, [each.numpy() for each in found]


def assert_open_clip_computes(torch, folder, ours):
    theirs, found = open_clip_outputs(torch, folder)
    expected = ours.embed_images(PICTURES), ours.embed_texts(TEXTS)
    for output, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert theirs.logit_scale.item() == 3


def test_a_clip_goes_to_open_clip(torch, tmp_path):
    source = make(torch, "clip", tmp_path / "published")
    export_published(source, tmp_path / "back", library="open_clip")
    arrays = published.openai_arrays(read(source))
    assert_same_arrays(read(tmp_path / "back"), arrays)
    assert_open_clip_computes(torch, tmp_path / "back", xmodal.load(source))
    # And from there to transformers.
    export_published(tmp_path / "back", tmp_path / "again", library="transformers")
    assert_same_arrays(read(tmp_path / "again"), read(source))


def test_a_clip_with_a_resnet_is_one_of_open_clip_alone(torch, tmp_path):
    text = published.openai_arrays(read(make(torch, "clip", tmp_path / "text")))
    arrays = {name: x for name, x in text.items() if not name.startswith("visual.")}
    pixels = published.make_resnet(torch, 16, (1, 2, 1, 1), 32, 24).state_dict()
    arrays |= {f"visual.{n}": x.numpy() for n, x in pixels.items() if "tracked" not in n}
    model = {"embed_dim": 24, "quick_gelu": True,
             "vision_cfg": {"image_size": 32, "layers": [1, 2, 1, 1], "width": 16},
             "text_cfg": {"context_length": 12, "vocab_size": 517, "width": 64, "heads": 4,
                          "layers": 3, "mlp_ratio": 0.75}}  # fmt: skip
    source = published.write(tmp_path / "published", arrays, open_clip_config={"model_cfg": model})
    (source / "merges.txt").write_text(published.MERGES)
    export_published(source, tmp_path / "back", library="open_clip")
    assert_same_arrays(read(tmp_path / "back"), arrays)
    theirs, *_ = published.open_clip().create_model_and_transforms(f"local-dir:{tmp_path}/back")
    for name, array in theirs.state_dict().items():
        if "tracked" not in name:
            np.testing.assert_array_equal(array, arrays[name], err_msg=name)
    with pytest.raises(UserError, match="transformers has no model .* of modified_resnet and text"):
        export_published(source, tmp_path / "other", library="transformers")


def save_run(folder, source, size, length):
    """A run that was fine-tuned from a converted CLIP at another size and with other texts."""
    model = read_model(source)
    section = model.section()
    section["text"]["encoder"]["max_positions"] = length
    section["image"]["encoder"] |= {"drop_path": 0.1, "dtype": "bfloat16"}
    tower = model.towers["text"]
    text = {**tower.preprocessing, "max_length": length}
    file = parse_file("merges.txt", tower.files["merges.txt"], "merges.txt")
    image = {**model.towers["image"].preprocessing, "size": size, "augment": {}}
    saved = tiny_dual_encoder.save_run(
        str(folder), image, section=section, features=(size, size, 3), text=text, words=file
    )
    return saved


def test_a_run_goes_to_transformers_with_its_own_sizes(torch, tmp_path):
    save_folder(tmp_path / "ours", *convert("clip", make(torch, "clip", tmp_path / "published")))
    run = save_run(tmp_path / "run", tmp_path / "ours", size=32, length=10)
    export_published(run, tmp_path / "back", library="transformers")
    theirs, tokens, images = open_theirs(tmp_path / "back", "clip")
    assert theirs.config.vision_config.image_size == 32
    assert theirs.config.text_config.max_position_embeddings == tokens.model_max_length == 10
    big = [picture.resize((32, 32)) for picture in PICTURES]
    inputs = tokens(TEXTS, padding="max_length", truncation=True, return_tensors="pt")
    inputs |= images(big, return_tensors="pt")
    found = their_outputs(torch, "clip", theirs, inputs)
    ours = xmodal.load(tmp_path / "back")
    for name, expected in (("images", ours.embed_images(big)), ("texts", ours.embed_texts(TEXTS))):
        expected = np.asarray(expected) / np.linalg.norm(expected, axis=-1, keepdims=True)
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5)
    weights = read_folder(run, "best").params
    scale = weights["similarity"]["log_scale"]
    assert theirs.logit_scale.item() == pytest.approx(float(scale))
    # Its image encoder has a norm more than a ViT.
    with pytest.raises(UserError, match="image/encoder/before_norm/.* has no counterpart"):
        export_published(run, tmp_path / "tower", library="transformers", tower="image")


SENTENCES = {
    "encoder": {"name": "bert", "vocab_size": 11, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12,
                "max_positions": 24},
    "head": {"name": "mean"},
}  # fmt: skip


def test_a_sentence_encoder_of_a_run(torch, tmp_path):
    """The text tower alone, in sentence-transformers, and the image tower in transformers."""
    library = pytest.importorskip("sentence_transformers", reason="it reads the folder")
    vit = {"name": "vit", "patch": 8, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12}
    section = {
        "image": {"encoder": vit, "head": {"name": "mean"}, "projection": {"width": 8}},
        "text": SENTENCES, "similarity": {"name": "cosine"},
    }  # fmt: skip
    run = tiny_dual_encoder.save_run(
        str(tmp_path / "run"),
        {"size": 24, "eval_transform": "torchvision", "eval_crop": 0.75}, section=section,
        features=(24, 24, 3), text={"tokenizer": "wordpiece", "max_length": 20},
        words=converted_models.PIECES,
    )  # fmt: skip
    texts = ["a red star", "the circle above the stars", "a"]
    export_published(run, tmp_path / "text", library="transformers", tower="text")
    encoder = library.SentenceTransformer(str(tmp_path / "text"), device="cpu")
    expected = xmodal.load(run).embed_texts(texts)
    np.testing.assert_allclose(encoder.encode(texts), expected, rtol=0, atol=1e-5)
    export_published(run, tmp_path / "image", library="transformers", tower="image")
    theirs, _, images = open_theirs(tmp_path / "image", "vit")
    assert images.size["shortest_edge"] == 32
    save_folder(tmp_path / "ours", *convert("vit", tmp_path / "image"))
    inputs = images([OTHER_SIZE], return_tensors="pt")
    found = their_outputs(torch, "vit", theirs, inputs)["images"]
    np.testing.assert_allclose(
        found, xmodal.load(tmp_path / "ours").embed_images([OTHER_SIZE]), rtol=0, atol=1e-5
    )
    with pytest.raises(UserError, match="transformers has no model like .* of vit and bert"):
        export_published(run, tmp_path / "both", library="transformers")


@pytest.mark.parametrize(
    ("change", "library", "message"),
    [
        ({"similarity": {"name": "dot"}}, "transformers", "similarity dot; known: clip"),
        (
            {"similarity": {"name": "cosine", "bias": -3.0}},
            "transformers",
            "similarity/bias has no",
        ),
        ({"image.head": {"name": "mean"}}, "transformers", "image embeddings .* differ"),
        ({"text.encoder.activation": "gelu_tanh"}, "open_clip", "text embeddings .* differ"),
        ({"image.projection": None}, "transformers", "A clip has image/projection"),
    ],
)
def test_what_a_library_lacks_is_said_in_a_sentence(torch, change, library, message, tmp_path):
    save_folder(tmp_path / "ours", *convert("clip", make(torch, "clip", tmp_path / "published")))
    stored = read_folder(tmp_path / "ours", "best")
    section = json.loads(json.dumps(stored.section))
    for path, value in change.items():
        *places, last = path.split(".")
        part = section
        for place in places:
            part = part[place]
        part[last] = value
    if "image.projection" in change:
        stored.params["image"].pop("projection")
    changed = dataclasses.replace(stored, section=section)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "read_folder", lambda source, step: (
            changed if source == "run" else read_folder(source, step)))  # fmt: skip
        with pytest.raises(UserError, match=message):
            export_published("run", tmp_path / "back", library=library)
    assert not (tmp_path / "back").exists()


def test_the_command(torch, tmp_path):
    source = make(torch, "vit", tmp_path / "published")
    save_folder(tmp_path / "ours", *convert("vit", source))
    command = [str(tmp_path / "ours"), "--format=transformers", f"--output={tmp_path}/back"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["export", *command])
        export.main()
    assert_same_arrays(read(tmp_path / "back"), read(source))
