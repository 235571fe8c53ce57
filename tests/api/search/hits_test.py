"""A cross-encoder ranks the hits of an index again, by the scores of evaluation."""

import dataclasses
import json
import urllib.request

import jax
import numpy as np
import PIL.Image
import pytest

import xmodal
from tests.api.search.serving import serving
from tests.api.tiny_dual_encoder import (
    CROSS_ENCODER,
    SECTION,
    WIDTH,
    make_texts,
    save_run,
)
from xmodal.evals.scores.given_items import GivenItems
from xmodal.evals.scores.second_stage import PairReranker, SecondStage
from xmodal.evals.scores.vector_scores import open_scores

MODALITY, COUNT, TOP = 8, 14, 7
VIT = {"name": "vit", "patch": 4, "width": WIDTH, "depth": 1, "heads": 1, "mlp_dim": 4}
PIXELS = SECTION | {
    "image": {"encoder": VIT, "head": {"name": "cls"}, "projection": {"width": WIDTH}},
    "cross_encoder": CROSS_ENCODER | {"score": "logit"},
}
NAME = "logit of matching_head + 2.5 cosine"


def evals_of(*values):
    """Evaluators with rerankers, and one without."""
    rerankers = [{"name": "cross_encoder", "top": 5, "first_stage_weight": each} for each in values]
    found = {f"e{number}": {"reranker": each} for number, each in enumerate(rerankers)}
    return found | {"plain": {"reranker": None}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose evaluators add the towers' score, and an index of files and captions."""
    folder = tmp_path_factory.mktemp("run")
    paths = [str(folder / f"{number}.png") for number in range(COUNT)]
    colors = np.random.default_rng(0).integers(0, 256, (COUNT, 3))
    for path, color in zip(paths, colors.tolist(), strict=True):
        PIL.Image.new("RGB", (MODALITY, MODALITY), tuple(color)).save(path)
    place = save_run(
        str(folder / "run"), {"size": MODALITY}, (3,), PIXELS,
        features=(MODALITY, MODALITY, 3), evals=evals_of(2.5, 2.5),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "local_devices", lambda: jax.devices()[:1])
        model = xmodal.load(place)
    texts = list(dict.fromkeys(make_texts(3 * COUNT)))[:COUNT]
    return model, paths, texts, xmodal.Index.build(model, images=paths, captions=texts)


@pytest.mark.slow
def test_hits_are_those_of_the_evaluator(run):
    """Both directions, and over HTTP."""
    model, paths, texts, index = run
    config, tokenizer = model._image_config, model._tokenizer
    items = GivenItems(images=paths, texts=texts, config=config, tokenizer=tokenizer)
    embeddings = model._embed_pairs(model._params, model._model_state, items, 64)
    first = open_scores(embeddings)["image", "text"]
    pairs, reranker = embeddings.pairs, PairReranker(TOP, 2.5)
    stage = SecondStage(first, "cosine", pairs, pairs.definition, reranker, "model")
    alone = embeddings.pairs.pairs(*np.indices((COUNT, COUNT)).reshape(2, -1))
    assert 0.1 < np.std(alone) < 10
    for text_queries in (False, True):
        expected = stage(text_queries)
        for row in range(3):
            query = {"text": texts[row]} if text_queries else {"image": paths[row]}
            find = "image" if text_queries else "caption"
            hits = index.query(**query, top=TOP, rerank=TOP, find=find)
            (scores,) = expected.rows(np.array([row]))
            assert [hit.row for hit in hits] == list(np.argsort(-scores, kind="stable")[:TOP])
            found = [hit.score for hit in hits]
            np.testing.assert_allclose(found, np.sort(scores)[::-1][:TOP], rtol=1e-5, atol=1e-5)
            assert {hit.definition for hit in hits} == {stage.definition} == {NAME}
    plain = index.query(image=paths[0], find="caption", top=COUNT)
    assert {hit.definition for hit in plain} == {"cosine"}
    hit = index.query(image=paths[0], find="caption", rerank=TOP, first_stage_weight=0)[0]
    assert hit.definition == "logit of matching_head"
    assert hit.score == pytest.approx(alone[hit.row], rel=1e-5)
    # Over HTTP, too.
    with serving(index) as (host, port):
        asked = f"http://{host}:{port}/search?text={texts[0].replace(' ', '+')}&top=3&rerank=7"
        with urllib.request.urlopen(asked, timeout=60) as answer:
            found = json.load(answer)["hits"]
    expected = index.query(texts[0], top=3, rerank=7)
    assert found == [dataclasses.asdict(hit) for hit in expected]
    assert found[0]["definition"] == NAME


@pytest.mark.parametrize(("evals", "expected"), [((14.5, 14.5), 14.5), ((1.0, 0.0), None)])
def test_the_definition_is_that_of_the_evaluators(evals, expected, tmp_path):
    section = SECTION | {"cross_encoder": CROSS_ENCODER}
    run = save_run(str(tmp_path / "run"), steps=(3,), section=section, evals=evals_of(*evals))
    assert xmodal.load(run).first_stage_weight == expected
