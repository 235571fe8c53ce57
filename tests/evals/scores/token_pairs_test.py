"""A similarity of token sets ranks the best items of another model."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from tests.evals.tiny_split import TinySplit
from tests.similarity.slow_saf import real_items, score_pairs
from tests.similarity.token_views import make_params, make_view
from xmodal.apps.explore.compare import compare as compare_models
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.evals import evaluate_source, make_evaluator, read_options
from xmodal.evals.reports.store import load_ranks
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.saving import save_embeddings
from xmodal.evals.scores.sources import Embeddings
from xmodal.evals.scores.token_pairs import open_token_pairs
from xmodal.similarity import make_similarity

SPLIT = TinySplit()
# The ids of the sources are in another order than those of the split.
IDS = np.sort(SPLIT.image_ids), np.sort(SPLIT.caption_ids)
VIEWS = make_view(4, 3, ragged=False), make_view(8, 11, seed=1)


@functools.cache
def params():
    return make_params(make_similarity({"name": "saf", "width": 5}), VIEWS)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def make_source(**changes):
    tokens = [RaggedTokens.from_padded(v.extras["tokens"], v.extras["mask"]) for v in VIEWS]
    source = Embeddings(
        "a model", IDS[0], VIEWS[0].vector, IDS[1], VIEWS[1].vector, "saf", params(),
        tokens=dict(zip(("image", "text"), tokens, strict=True)), options={"width": 5},
    )  # fmt: skip
    return dataclasses.replace(source, **changes)


def save_first(path, seed=5, **changes):
    """A file of a dual encoder of the same items; returns its path and scores."""
    rng = np.random.default_rng(seed)
    images, captions = (rng.normal(size=(len(ids), 3)).astype(np.float32) for ids in IDS)
    first = Embeddings("dual", IDS[0], images, IDS[1], captions, "dot")
    save_embeddings(path, dataclasses.replace(first, **changes))
    return str(path), images @ captions.T


def make_case(source, **reranker):
    options = {"type": "benchmarks"} | ({"reranker": reranker} if reranker else {})
    (options,) = read_options({"shapes": options}).values()
    return make_evaluator("shapes", options, SPLIT, ("image", "text")), source


def in_order(matrix):
    """A matrix of the sources' items, in the order of the split."""
    rows, columns = (
        np.searchsorted(i, w)
        for i, w in zip(IDS, (SPLIT.image_ids, SPLIT.caption_ids), strict=True)
    )
    return matrix[rows][:, columns]


def test_chosen_pairs_have_the_scores_of_all():
    rows, columns = (x.ravel() for x in np.indices((4, 8)))
    every = open_token_pairs(make_source(), None, 3).pairs(rows, columns)
    expected = score_pairs(params(), *map(real_items, VIEWS))
    np.testing.assert_allclose(every.reshape(4, 8), expected, rtol=1e-4, atol=1e-5)
    some = np.array([3, 30, 12, 3, 17])
    mesh = mesh_lib.make_mesh(jax.devices()[:2])
    for devices in (None, mesh):
        found = open_token_pairs(make_source(), devices, 3).pairs(rows[some], columns[some])
        np.testing.assert_array_equal(found, every[some])


def test_benchmarks_rank_the_best_of_another_model(tmp_path):
    path, first = save_first(tmp_path / "dual.npz")
    first, own = (in_order(x) for x in (first, score_pairs(params(), *map(real_items, VIEWS))))
    evaluation = evaluate_source(
        *make_case(make_source(), name="similarity", top=2, first_stage=path), name="m"
    )
    direction = {b.name: b for b in evaluation.benchmarks}["shapes_own"].directions["t2i"]
    for caption, rank in zip(range(8), direction.rank, strict=True):
        best = np.argsort(-first[:, caption])[:2]
        keys = [(i in best, own[i, caption] if i in best else first[i, caption]) for i in range(4)]
        image = SPLIT.image_ids.tolist().index(SPLIT.caption_image_ids[caption])
        assert rank == sum(key > keys[image] for key in keys)
    assert "ranked by saf among the top 2 of dot of dual (sha256 " in evaluation.report()
    evaluation.save(tmp_path / "results")
    stored = load_ranks(tmp_path / "results")
    (kept,) = (b.directions["t2i"].rescored for b in stored.results if b.name == "shapes_own")
    assert kept == direction.rescored
    assert all(not each.difference for each in evaluation.compare(stored).values())
    other, _ = save_first(tmp_path / "other.npz", seed=6)
    for changes in ({"top": 3}, {"first_stage": other}):
        options = {"name": "similarity", "top": 2, "first_stage": path, **changes}
        unequal = evaluate_source(*make_case(make_source(), **options), name="n")
        with pytest.raises(UserError, match="scored the top . of dot of .* against the top 2 of"):
            unequal.compare(stored)
        unequal.save(tmp_path / "unequal")
        both = compare_models({"m": tmp_path / "results", "n": tmp_path / "unequal"})
        with pytest.raises(UserError, match="equal `top` and `first_stage`"):
            both.differences("m", "n")
        assert both.find_best("shapes_own/t2i/recall@1")  # By intervals alone.
