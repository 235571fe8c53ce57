"""A loaded model against its formulas, one item at a time."""

import io

import numpy as np
import PIL.Image
import pytest
from tiny_dual_encoder import FEATURES, WIDTH, WORDS, make_model, make_texts

from xmodal import ItemEmbeddings
from xmodal.core.errors import UserError
from xmodal.data import given_items
from xmodal.data.pixels.images import ImageConfig, prepare_images


def mean_of_words(text, params):
    """The text tower, written out."""
    table = params["text"]["encoder"]["table"]
    rows = [WORDS.index(word if word in WORDS else "<unk>") for word in text.split()]
    return table[rows].mean(axis=0)


def encode(pixels, **options):
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG", **options)
    return file.getvalue()


def test_texts_come_back_in_their_order():
    model, params = make_model(8)
    texts = make_texts(37)
    found = model.embed_texts(texts, batch_size=5)
    assert found.dtype == np.float32
    expected = np.stack([mean_of_words(text, params) for text in texts])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_features_and_similarities():
    model, params = make_model()
    features = np.random.default_rng(1).normal(size=(11, FEATURES)).astype(np.float32)
    images = model.embed_images(features, batch_size=3)
    projection = params["image"]["projection"]
    expected = features @ projection["kernel"] + projection["bias"]
    np.testing.assert_allclose(images, expected, rtol=1e-4, atol=1e-5)
    texts = model.embed_texts(make_texts(6))
    cosines = [
        [image @ text / np.linalg.norm(image) / np.linalg.norm(text) for text in texts]
        for image in images
    ]
    np.testing.assert_allclose(model.similarity(images, texts), cosines, rtol=1e-5, atol=1e-6)
    assert model.similarity_name == "cosine"


def test_regions_in_varying_numbers_are_padded_and_cut_as_in_evaluation():
    model, params = make_model(max_regions=3)
    rng = np.random.default_rng(1)
    regions = [rng.normal(size=(count, FEATURES)).astype(np.float32) for count in (1, 3, 5, 2)]
    projection = params["image"]["projection"]
    means = np.stack([each[:3].mean(axis=0) for each in regions])
    expected = means @ projection["kernel"] + projection["bias"]
    np.testing.assert_allclose(model.embed_images(regions), expected, rtol=1e-4, atol=1e-5)


def test_order_compares_images_with_texts_whichever_comes_first():
    model, _ = make_model(name="order")
    features = np.random.default_rng(1).normal(size=(3, FEATURES)).astype(np.float32)
    images, texts = model.embed_images(features), model.embed_texts(make_texts(5))
    excess = np.maximum(np.asarray(texts) - np.asarray(images)[:, None], 0)
    expected = -np.linalg.norm(excess, axis=2)
    np.testing.assert_allclose(model.similarity(images, texts), expected, atol=1e-5)
    np.testing.assert_allclose(model.similarity(texts[1:3], images), expected.T[1:3], atol=1e-5)
    # Of two texts, the left one counts as the image.
    excess = np.maximum(np.asarray(texts) - np.asarray(texts)[:, None], 0)
    found = model.similarity(texts, texts)
    np.testing.assert_allclose(found, -np.linalg.norm(excess, axis=2), atol=1e-5)
    own = ItemEmbeddings(np.asarray(images), modality="image")
    np.testing.assert_array_equal(model.similarity(texts, own), model.similarity(texts, images))
    with pytest.raises(UserError, match=r"'order' depends .* are \['text', ''\]: pass what"):
        model.similarity(texts, np.asarray(images))


def test_attention_of_texts_of_any_number_and_length():
    model, params = make_model(text_head="attention")
    texts = make_texts(37)
    found = model.attend(iter(texts), batch_size=8)
    head, table = params["text"]["head"], params["text"]["encoder"]["table"]
    for text, weighted in zip(texts, found, strict=True):
        words, weights = zip(*weighted, strict=True)
        assert list(words) == [word if word in WORDS else "<unk>" for word in text.split()]
        rows = table[[WORDS.index(word) for word in words]]
        hidden = np.tanh(rows @ head["hidden"]["kernel"] + head["hidden"]["bias"])
        expected = np.exp(hidden @ head["query"] / WIDTH**0.5)
        np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-4, atol=1e-6)


def test_tokens_and_pictures_are_those_of_the_evaluation(tmp_path):
    model, _ = make_model()
    ids, mask = model.tokenize(["the red star", "zebra"])
    assert ids[0, : mask[0].sum()].tolist() == [10, 5, 7]
    assert ids[1, : mask[1].sum()].tolist() == [3]
    pixels = np.random.default_rng(2).integers(0, 256, (40, 61, 3)).astype(np.uint8)
    (tmp_path / "picture.png").write_bytes(encode(pixels))
    config = ImageConfig(size=16, eval_transform="torchvision", eval_crop=0.875)
    path = tmp_path / "picture.png"
    forms = [str(path), path, encode(pixels), PIL.Image.fromarray(pixels), pixels]
    (expected,) = prepare_images([encode(pixels)], config)
    for form in forms:
        np.testing.assert_array_equal(given_items.prepare_image(form, config), expected)
    gray = pixels[..., 0]
    for form in (gray, PIL.Image.fromarray(gray)):
        np.testing.assert_array_equal(
            given_items.prepare_image(form, config), prepare_images([encode(gray)], config)[0]
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.embed_texts("a star"), "'a star' is not several texts: put one in a"),
        (lambda model: model.embed_images([np.ones(5), np.full(5, np.nan)]), "Image 1 .* finite"),
    ],
)
def test_mistakes_are_named(call, message):
    model, _ = make_model()
    with pytest.raises(UserError, match=message):
        call(model)


def test_texts_that_are_lost_are_counted(caplog):
    model = make_model(1)[0]
    model.embed_texts(make_texts(6))
    assert not caplog.messages
    longest = " ".join(["a red star"] * 9)
    texts = [f"{longest} above", f"{longest} above the circle", "", "狗", "a star"]
    model.embed_texts(iter(texts * 2))
    (said,) = caplog.messages
    assert "4 of 10 texts are longer than max_length=20 and are cut." in said
    assert "4 of 10 texts have no known word" in said
    model.embed_texts([""])
    assert len(caplog.messages) == 1
