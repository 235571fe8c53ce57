"""Folders of transformers are opened as they are, and rank as the library does itself."""

import json

import jax
import numpy as np
import PIL.Image
import pytest

import xmodal
from configs import clip as clip_config
from tests.pretrained import published_clip as published
from xmodal.api.exporting import export_model
from xmodal.core.errors import UserError
from xmodal.pretrained import converters
from xmodal.train.evaluation.subjects import evaluate_subjects
from xmodal.train.evaluation.suite import Request
from xmodal.train.inherit import inherit
from xmodal.train.published_towers import open_towers

TEXTS = ["the cat", "a bat sat at that hat", "", "the the the the the the the the"]
MEAN, STD = np.array([[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]])


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "xmodal" / "converted"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A CLIP of transformers, and its folder."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model, folder = published.make_clip(torch), tmp_path_factory.mktemp("clip")
    model.save_pretrained(folder)
    (folder / "merges.txt").write_text(published.MERGES)
    return model, folder


def pixels(pictures):
    """openai/CLIP's transform of PIL images, float32 [N, 3, S, S]."""
    size, found = published.PIXELS, []
    for picture in pictures:
        shorter = min(picture.size)
        sides = [int(size * side / shorter) for side in picture.size]
        resized = picture.resize(sides, PIL.Image.Resampling.BICUBIC)
        left, top = (round((side - size) / 2) for side in sides)
        crop = np.asarray(resized.crop((left, top, left + size, top + size))) / 255
        found.append(((crop - MEAN) / STD).transpose(2, 0, 1))
    return np.stack(found).astype(np.float32)


def functions(model, tokenize):
    """The library's own functions, on ids of texts."""
    import torch

    def embed_images(pictures):
        with torch.no_grad():
            return _vectors(model.get_image_features(torch.tensor(pixels(pictures))))

    def embed_texts(texts):
        ids, mask = (torch.tensor(np.asarray(each)) for each in tokenize(texts))
        with torch.no_grad():
            return _vectors(model.get_text_features(ids.long(), attention_mask=mask))

    return {"embed_images": embed_images, "embed_texts": embed_texts}


def _vectors(output):
    return getattr(output, "pooler_output", output)


@pytest.mark.slow
def test_a_folder_is_converted_once_and_embeds_as_the_library(clip, cache, tmp_path, monkeypatch):
    theirs, folder = clip
    model = xmodal.load(folder)
    assert [path.name for path in cache.iterdir()] == [model_hash(folder)]
    rng = np.random.default_rng(0)
    images = [PIL.Image.fromarray(rng.integers(0, 256, (40, 31, 3), np.uint8)) for _ in range(2)]
    own = functions(theirs, model.tokenize)
    np.testing.assert_allclose(model.embed_images(images), own["embed_images"](images), atol=1e-5)
    vectors = model.embed_texts(TEXTS)
    np.testing.assert_allclose(vectors, own["embed_texts"](TEXTS), atol=1e-5)

    # Attention from the class token in the last layer.
    import torch

    theirs.set_attn_implementation("eager")
    kept = theirs.vision_model(torch.tensor(pixels(images)), output_attentions=True).attentions
    over_patches = kept[-1][:, :, 0, 1:].mean(1).detach().numpy()
    expected = over_patches / over_patches.sum(1, keepdims=True)
    weights = model.attend_images(images)
    np.testing.assert_allclose(weights, expected.reshape(2, 3, 3), atol=1e-6)
    assert np.ptp(weights) > 1e-3

    # Again from the cache.
    monkeypatch.setattr(converters, "convert", None)
    np.testing.assert_array_equal(xmodal.load(str(folder)).embed_texts(TEXTS), vectors)
    export_model(folder, tmp_path / "bundle")
    bundle = xmodal.load(tmp_path / "bundle")
    np.testing.assert_allclose(bundle.embed_texts(TEXTS), vectors, atol=1e-5)
    np.testing.assert_allclose(
        bundle.similarity(bundle.embed_texts(TEXTS), bundle.embed_images(images)),
        model.similarity(vectors, model.embed_images(images)), atol=1e-5,
    )  # fmt: skip
    with pytest.raises(UserError, match="no weights for words or patches"):
        bundle.attend_images(images)


def model_hash(folder):
    return converters._hash_of(converters.epath.Path(folder))


def test_a_folder_of_another_model_or_of_none(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(UserError, match=r"is not a run .*, nor does it open as a published CLIP"):
        xmodal.load(tmp_path)
    with pytest.raises(UserError, match=r"nobody/clip does not exist; .* is hf://OWNER/NAME"):
        xmodal.load("nobody/clip")


@pytest.mark.slow
def test_three_ways_to_evaluate_give_the_same_numbers(clip, few_shapes, tmp_path):
    """A config with the folder, the library's functions, and a file of embeddings."""
    theirs, folder = clip
    model = xmodal.load(folder)
    config = clip_config.get_config()
    config.init_from.model = str(folder)
    assert inherit(config).init_from.model == str(folder)  # A run resumes by this name.
    config.data.update({"dataset": "crisscrossed_shapes", "data_dir": few_shapes})
    request = Request(saved={"embeddings": str(tmp_path / "x.npz")})
    evaluate_subjects(open_towers(config), str(tmp_path / "a"), request)
    evaluation = xmodal.evaluate(
        **functions(theirs, model.tokenize),
        dataset="crisscrossed_shapes", data_dir=few_shapes, similarity="cosine",
    )  # fmt: skip
    stored = xmodal.evaluate(
        embeddings=str(tmp_path / "x.npz"), dataset="crisscrossed_shapes", data_dir=few_shapes
    )
    numbers = json.loads((tmp_path / "a" / "metrics.json").read_text())
    found = {tag.removeprefix("benchmarks/"): value for tag, value in numbers.items()}
    assert 0 < found["shapes/t2i/recall@10"] < 100
    assert jax.tree.map(float, dict(stored.metrics)) == pytest.approx(found, nan_ok=True)
    assert evaluation.metrics == pytest.approx(found, nan_ok=True, abs=0.2)
