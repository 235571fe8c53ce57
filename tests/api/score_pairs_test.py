"""A loaded model scores pairs, each as if it were alone."""

import jax
import numpy as np
import pytest
from tiny_dual_encoder import CROSS_ENCODER, FEATURES, SECTION, make_model, make_texts, save_run

import xmodal
from xmodal.api import scoring
from xmodal.models import make_dual_encoder


def slow_scores(params, images, texts, model):
    """The features of one pair at a time, without padding, and the scorer on them."""
    encoders = make_dual_encoder(SECTION | {"cross_encoder": CROSS_ENCODER})
    scorer = encoders.cross_encoder

    @jax.jit
    def score(inputs):
        prepared = {}
        for modality, columns in inputs.items():
            embedding, _ = encoders.embed(modality, params, {"image": {}, "text": {}}, columns)
            features = embedding.extras["features"]
            prepared[modality] = scorer.prepare(modality, params, features)
        one = jax.tree.map(lambda x: x[:, None], prepared["text"])
        return scorer.scores(params, prepared["image"], one)[0, 0]

    for image, text in zip(images, texts, strict=True):
        ids, mask = model.tokenize([text])
        real = mask[0] > 0
        text_inputs = {"text_ids": ids[:, real], "text_mask": mask[:, real]}
        yield float(score({"image": {"image": image[None]}, "text": text_inputs}))


@pytest.fixture(scope="module")
def pairs():
    """Images, texts of three lengths, for each of which the reference compiles, and scores."""
    images = np.random.default_rng(3).normal(size=(11, FEATURES)).astype(np.float32)
    words = [text.split() for text in make_texts(11)]
    texts = [" ".join(each[: max(n for n in (1, 4, 9) if n <= len(each))]) for each in words]
    assert {text.count(" ") for text in texts} == {0, 3, 8}
    model, params = make_model(1, cross_encoder=CROSS_ENCODER)
    return images, texts, list(slow_scores(params, images, texts, model))


@pytest.mark.parametrize(("devices", "block"), [(8, 1024), (1, 4)])
def test_scores_are_those_of_pairs_alone(devices, block, pairs, monkeypatch):
    monkeypatch.setattr(scoring, "_BLOCK", block)
    model, _ = make_model(devices, cross_encoder=CROSS_ENCODER)
    images, texts, expected = pairs
    found = model.score_pairs(images, texts, batch_size=4)
    assert found.dtype == np.float32
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


def test_a_run_keeps_its_cross_encoder(tmp_path):
    run = save_run(str(tmp_path / "run"), section=SECTION | {"cross_encoder": CROSS_ENCODER})
    images = np.ones((2, FEATURES), np.float32)
    loaded, other = xmodal.load(run), xmodal.load(run, step=5)
    found = loaded.score_pairs(images, ["a red star", "a green circle"])
    assert found[0] != found[1]
    # The bias of the projection, in which the steps differ, does not reach the tokens.
    np.testing.assert_array_equal(
        found, other.score_pairs(images, ["a red star", "a green circle"])
    )
