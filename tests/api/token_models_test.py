"""A model whose similarity compares tokens: embedding, scores, bundle, search."""

import numpy as np
import pytest

import xmodal
from tests.api.tiny_dual_encoder import FEATURES, WIDTH, WORDS, make_texts, make_weights, save_run
from tests.similarity.slow_saf import score_pairs
from xmodal.api.exporting import export_model

REGIONS = 3
SECTION = {
    "image": {
        "encoder": {"name": "precomputed", "features": (REGIONS, FEATURES)},
        "head": {"name": "global_attention", "width": WIDTH, "batch_norm": True},
    },
    "text": {
        "encoder": {"name": "words", "vocab_size": len(WORDS), "width": WIDTH},
        "head": {"name": "global_attention"},
    },
    "similarity": {"name": "saf", "width": 5, "learned_temperature": True},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("runs") / "run")
    save_run(folder, steps=(3,), section=SECTION, features=(REGIONS, FEATURES))
    return folder, make_weights(section=SECTION, features=(REGIONS, FEATURES))[0]


def make_images(count, seed=1):
    return np.random.default_rng(seed).normal(size=(count, REGIONS, FEATURES)).astype(np.float32)


def items_of(embedding):
    ends = np.cumsum(embedding.tokens.lengths)
    starts = ends - embedding.tokens.lengths
    return [
        (embedding.tokens.values[a:b], vector)
        for a, b, vector in zip(starts, ends, embedding.vector, strict=True)
    ]


def test_scores_are_those_of_the_slow_loop(run):
    model, params = xmodal.load(run[0]), run[1]
    images, texts = model.embed_images(make_images(5)), model.embed_texts(make_texts(9))
    assert (images.modality, texts.modality, images[1:3].tokens.lengths.tolist()) == (
        "image",
        "text",
        [3, 3],
    )
    expected = score_pairs(params["similarity"], items_of(images), items_of(texts))
    np.testing.assert_allclose(model.similarity(images, texts), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        model.similarity(texts[::-1], images), expected.T[::-1], rtol=1e-3, atol=1e-4
    )


@pytest.fixture(scope="module")
def bundle_folder(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles") / "bundle"
    export_model(run[0], folder, platforms=["cpu"])
    return folder


@pytest.mark.slow
def test_a_bundle_carries_tokens_and_parameters(run, bundle_folder):
    model, bundle = xmodal.load(run[0]), xmodal.load(bundle_folder)
    assert bundle.hash_weights() == model.hash_weights()
    found, expected = (
        each.similarity(each.embed_images(make_images(4)), each.embed_texts(make_texts(6)))
        for each in (bundle, model)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_search_reranks_the_nearest_vectors(run, tmp_path, monkeypatch):
    from xmodal.api.search import nearest

    model = xmodal.load(run[0])
    pictures, texts = make_images(12), make_texts(5)
    index = xmodal.Index.build(model, images=list(pictures))
    index.save(tmp_path / "index")
    index = xmodal.Index.open(tmp_path / "index")
    images, queries = model.embed_images(pictures), model.embed_texts(texts)
    scores = model.similarity(images, queries)
    for number, text in enumerate(texts):
        hits = index.query(text, top=12)
        assert [hit.row for hit in hits] == list(np.argsort(-scores[:, number], kind="stable"))
        np.testing.assert_allclose(
            [hit.score for hit in hits], sorted(scores[:, number])[::-1], rtol=1e-4, atol=1e-5
        )
    monkeypatch.setattr(nearest, "CANDIDATES", 4)
    close = np.argsort(-np.asarray(queries) @ np.asarray(images).T, axis=1)[:, :4]
    for number, text in enumerate(texts):
        best = max(close[number], key=lambda row: scores[row, number])
        assert index.query(text, top=1)[0].row == best
