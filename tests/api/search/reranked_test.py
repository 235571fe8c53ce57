"""Reranking computes scores as precisely as evaluation does."""

import functools

import jax

from tests.similarity.token_views import make_params, make_view
from xmodal.api.search import reranked
from xmodal.similarity import make_similarity


def test_products_of_scores_are_in_full_precision():
    saf = make_similarity({"name": "saf", "width": 5})
    views = [make_view(1, 4, ragged=False), make_view(3, 6, seed=1)]
    score = functools.partial(reranked._score, saf, False, make_params(saf, views))
    lines = str(jax.make_jaxpr(score)(*views)).split("dot_general[")[1:]
    assert lines
    assert all("HIGHEST" in line for line in lines)
