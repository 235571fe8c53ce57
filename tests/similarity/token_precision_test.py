"""Compiled similarities of token sets: the precision of their products, and their cost."""

import re

import jax
import jax.numpy as jnp
import pytest

from tests.similarity.token_views import compare_cost, make_params, make_views
from xmodal.similarity import LATE_INTERACTIONS, make_similarity


@pytest.mark.parametrize("section", [*LATE_INTERACTIONS, "saf with batch statistics"])
def test_every_product_of_scores_and_gradients_is_in_float32(section):
    name, _, is_normalized = section.partition(" ")
    options = {"gate_norm": "batch"} if is_normalized else {}
    similarity, views = make_similarity({"name": name, **options}), make_views()
    params = make_params(similarity, views)

    def loss(tokens, params):
        items = [jax.tree.map(jnp.asarray, view) for view in views]
        for item, each in zip(items, tokens, strict=True):
            item.extras["tokens"] = each
        extras, _ = similarity.module.observe(params, *items) if is_normalized else ({}, {})
        items[1].extras.update(extras)
        return jnp.sum(similarity.logits(*similarity.prepare_both(*items, params), params))

    tokens = [view.extras["tokens"] for view in views]
    program = jax.jit(jax.value_and_grad(loss, argnums=(0, 1))).lower(tokens, params).as_text()
    products = re.findall(r"stablehlo\.dot_general .*", program)
    assert len(products) > 5
    assert all("precision = [HIGHEST, HIGHEST]" in each for each in products)


@pytest.mark.parametrize(
    "section",
    [
        {"name": "scan"},
        {"name": "scan", "queries": "image"},
        {"name": "saf", "width": 64},
        {"name": "sgr", "width": 64},
    ],
)
def test_the_cost_is_that_of_the_compiled_program(section):
    flops, memory = compare_cost(section)
    assert 0.8 < flops < 1.3
    assert 0.7 < memory < 1.3
