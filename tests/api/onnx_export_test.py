"""ONNX exports embed like their models, and answer queries where xmodal and JAX are missing."""

import dataclasses
import json
import pathlib
import subprocess
import sys

import flax.linen as nn
import jax
import jax.extend
import numpy as np
import PIL.Image
import pytest
from converted_models import MODELS, save_converted
from tiny_dual_encoder import WORDS, save_run

import xmodal
from tests.pretrained import published_clip
from xmodal.core.errors import UserError
from xmodal.models.encoders import efficientnet

pytest.importorskip("jax2onnx", reason="exports to ONNX need it: pip install 'xmodal[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime")

from xmodal.api import onnx_export  # noqa: E402
from xmodal.api.onnx_search import OnnxModel  # noqa: E402

TEXTS = ["a red star above the circle", "Café, the STARS!", "", "a " * 300]
# Without other libraries; the folder of the script is on the path, as for `python search.py`.
ALONE = """
import runpy, sys

sys.modules.update(dict.fromkeys({blocked}))
sys.argv[1:], sys.path[:0] = {arguments}, [{folder!r}]
runpy.run_path({folder!r} + "/search.py", run_name="__main__")
"""
BLOCKED = ["xmodal", "jax", "jaxlib", "flax", "tensorflow", "simplejpeg", "etils", "safetensors"]


TEXT_CNN = {
    "image": MODELS["pcme"]["image"] | {"head": {"name": "mean"}, "projection": {"width": 5}},
    "text": {
        "encoder": {"name": "textcnn", "vocab_size": len(WORDS)}, "head": {"name": "max"},
        "projection": {"width": 5},
    },
    "similarity": {"name": "dot"},
}  # fmt: skip


def find(folder, *arguments):
    """(row of the picture, score) of each line that search.py prints."""
    code = ALONE.format(blocked=BLOCKED, arguments=list(arguments), folder=str(folder))
    command = [sys.executable, "-I", "-c", code]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split(maxsplit=2) for line in found.splitlines()]
    assert [int(rank) for rank, *_ in rows] == list(range(1, len(rows) + 1))
    return [(name, float(score)) for _, score, name in rows]


def make_clip(folder):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    published_clip.make_clip(torch).save_pretrained(folder)
    # Its last pieces are bytes of UTF-8, as in OpenAI's.
    merges = published_clip.MERGES.replace("th e</w>\na t</w>", "Ã ©\nÃ© s</w>")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    return folder


def make_pixels(folder, **text):
    section = MODELS["pixels"]
    image = section["image"] | {"encoder": {"name": "convnet", "channels": (4, 8), "units": (1, 1)}}
    section = section | {"image": image | {"head": {"name": "flatten"}}}
    section["text"] = section["text"] | {"encoder": section["text"]["encoder"] | text}
    return save_converted(folder, section)


@pytest.fixture(scope="module")
def pixels(tmp_path_factory):
    """A model of pixels and words, and its export."""
    folder = tmp_path_factory.mktemp("onnx")
    onnx_export.export_onnx(make_pixels(folder / "model"), folder / "export")
    return xmodal.load(folder / "model"), folder / "export"


def check(model, export, texts=TEXTS):
    """Compares the functions in ONNX, for batches of 1 and of several items, with a model."""
    exported = OnnxModel(export)
    if "text" in model.modalities:
        for given in (texts, texts[:1]):
            found, expected = exported.embed_texts(given), model.embed_texts(given)
            np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)
        assert np.ptp(expected) > 0
    if "image" in model.modalities:
        rng = np.random.default_rng(1)
        pictures = rng.integers(0, 256, (3, 90, 70, 3)).astype(np.uint8)
        for given in (pictures, pictures[:1]):
            found, expected = exported.embed_images(given), model.embed_images(given)
            np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_pixels_and_words(pixels):
    model, export = pixels
    check(model, export)
    readme, card = (
        (export / "README.md").read_text(),
        json.loads((export / "onnx.json").read_text()),
    )
    assert "[N, 32, 32, 3]" in readme
    assert "0.875 of each side" in readme
    assert card["weights"] == model.hash_weights()
    session = onnxruntime.InferenceSession(export / "text.onnx")
    assert [(x.name, x.type, x.shape) for x in session.get_inputs()] == [
        ("text_ids", "tensor(int32)", ["N", 20]), ("text_mask", "tensor(int32)", ["N", 20])
    ]  # fmt: skip


@pytest.mark.slow
def test_clip_of_transformers(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = make_clip(tmp_path / "clip")
    onnx_export.export_onnx(source, tmp_path / "export")
    # HTML is unescaped; each "&" alone is one character.
    check(xmodal.load(source), tmp_path / "export", [*TEXTS, "cats &amp; hats", "the  THE\ncat"])


@pytest.mark.slow
def test_an_efficientnet_and_layers_in_bfloat16(tmp_path, monkeypatch):
    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:1])
    text = MODELS["pixels"]["text"]
    text = text | {"encoder": text["encoder"] | {"dtype": "bfloat16"}}
    source = save_converted(tmp_path / "half", MODELS["pixels"] | {"text": text})
    onnx_export.export_onnx(source, tmp_path / "export")
    # The weights are equal, and layers of the export compute in float32.
    check(xmodal.load(save_converted(tmp_path / "model", MODELS["pixels"])), tmp_path / "export")


@pytest.mark.slow
def test_a_run_of_features_shows_its_metrics_and_keeps_its_words(tmp_path):
    run = save_run(str(tmp_path / "run"))
    onnx_export.export_onnx(run, tmp_path / "export")
    model, exported = xmodal.load(run), OnnxModel(tmp_path / "export")
    # nltk splits these words, so that there is no tokenizer.json.
    names = {path.name for path in (tmp_path / "export").iterdir()}
    assert "vocab.txt" in names
    assert "tokenizer.json" not in names
    found = exported.embed_ids(*model.tokenize(TEXTS[:2]))
    np.testing.assert_allclose(found, model.embed_texts(TEXTS[:2]), atol=1e-4)
    features = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    np.testing.assert_allclose(
        exported.embed_images(features), model.embed_images(features), atol=1e-4, rtol=1e-4
    )
    assert "step 3" in (tmp_path / "export" / "README.md").read_text()
    assert "Metrics: m 0.9." in (tmp_path / "export" / "README.md").read_text()
    with pytest.raises(SystemExit, match=r"tokenizer\.json is missing"):
        exported.embed_texts(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "compares embeddings by 'match_probability'.*--format=bundle"),
        ({"similarity": {"name": "cosine", "field": "mean"}}, None),
        (TEXT_CNN, "text tower .* cannot be exported .*Symbolic dimension 'N'"),
    ],
)
def test_what_onnx_cannot_hold_is_refused(changes, message, tmp_path):
    source = save_converted(tmp_path / "model", MODELS["pcme"] | changes)
    if message is None:  # Without samples, it can.
        onnx_export.export_onnx(source, tmp_path / "export")
        return
    with pytest.raises(UserError, match=message):
        onnx_export.export_onnx(source, tmp_path / "export")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_nothing_is_written_if_the_embeddings_differ(tmp_path, monkeypatch):
    convert = onnx_export._convert

    def spoil(encoders, modality, stored, card):
        params = jax.tree.map(lambda x: 1.01 * x, stored.params)
        return convert(encoders, modality, dataclasses.replace(stored, params=params), card)

    monkeypatch.setattr(onnx_export, "_convert", spoil)
    with pytest.raises(UserError, match="text embeddings of the ONNX export differ by"):
        onnx_export.export_onnx(make_pixels(tmp_path / "model"), tmp_path / "export")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def save_pictures(folder):
    """Photograph-like pictures: smooth ones of any shape, some rotated by EXIF or transparent."""
    folder.mkdir()
    rng, paths = np.random.default_rng(0), []
    for number, (height, width) in enumerate([(48, 80), (90, 50), (64, 64), (40, 200), (70, 61)]):
        small = PIL.Image.fromarray(rng.integers(0, 256, (5, 6, 3)).astype(np.uint8))
        picture = small.resize((width, height), PIL.Image.Resampling.BICUBIC)
        exif = picture.getexif()
        exif[0x0112] = (1, 6, 3, 8, 1)[number]
        if number == 2:
            picture.putalpha(128)
        paths.append(folder / f"{number}.{'jpg' if number == 4 else 'png'}")
        picture.save(paths[-1], exif=exif)
    return list(map(str, paths))


@pytest.mark.slow
def test_search_without_jax_finds_the_same(pixels, tmp_path):
    model, export = pixels
    pictures = save_pictures(tmp_path / "pictures")
    index = xmodal.Index.build(model, images=pictures, captions=TEXTS[:2])
    index.save(tmp_path / "index")
    queries = [({"text": text}, [text]) for text in TEXTS[:2]]
    queries += [({"image": picture}, [f"--image={picture}"]) for picture in pictures]
    for given, arguments in queries:
        hits = index.query(**given, top=4)
        found = find(export, str(tmp_path / "index"), *arguments, "--top=4")
        assert [name for name, _ in found] == [hit.item for hit in hits]
        # Pillow decodes a JPEG with another transform.
        atol = 5e-3 if pictures[-1] in arguments[0] else 1e-4
        np.testing.assert_allclose([x for _, x in found], [hit.score for hit in hits], atol=atol)
    captions = find(export, str(tmp_path / "index"), TEXTS[0], "--find=caption")
    assert [name for name, _ in captions] == TEXTS[:2]
    # Another model's index.
    card = pathlib.Path(tmp_path / "index" / "index.json")
    card.write_text(json.dumps(json.loads(card.read_text()) | {"weights": "0"}))
    with pytest.raises(subprocess.CalledProcessError) as error:
        find(export, str(tmp_path / "index"), TEXTS[0])
    assert "was embedded by another model" in error.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as error:
        find(export, str(tmp_path / "photos"), TEXTS[0])
    assert error.value.stderr.count("\n") == 1
    assert "No such file" in error.value.stderr


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 1), (1, 1))])
def test_pooling_of_maps(padding):
    def pool(x):
        return nn.max_pool(x, (3, 3), (2, 2), padding)

    (items,) = jax.export.symbolic_shape("N")
    shape = jax.ShapeDtypeStruct((items, 9, 8, 3), np.float32)
    plain = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(pool)(shape))
    proto = onnx_export._import_converter()(lambda x: plain(x)[0], [shape], input_names=["x"])
    maps = np.random.default_rng(0).normal(size=(2, 9, 8, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": maps})[0], pool(maps))
