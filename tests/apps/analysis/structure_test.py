"""Facts about sampled pairs hold for pairs from the scheme, but not for others."""

import numpy as np
import pytest

from data_prep.sampling import scheme
from data_prep.sampling.groups import number_groups
from xmodal.apps.analysis.sampling import samplers
from xmodal.apps.analysis.sampling.structure import check_structure

IMAGES = 40


@pytest.fixture(scope="module")
def groups():
    return number_groups(IMAGES, 5)


@pytest.fixture(scope="module")
def pairs(groups):
    rng = np.random.default_rng(0)
    within = samplers.sample_within(
        groups, [rng.normal(size=(IMAGES, 8))], [rng.normal(size=(IMAGES, 8))] * 2, seed=0
    )
    sources = [
        (groups.owners[within["c2c_isim"]], rng.uniform(0, 5, len(within["c2c_isim"]))),
        (within["i2i_csim"], rng.uniform(0, 5, len(within["i2i_csim"]))),
    ]
    cross = scheme.cross_pairs(sources, groups, rng)
    return {**within, "c2i_intrasim": cross, "c2i_original": scheme.original_pairs(groups)}


def broken(facts):
    return {(fact.method, fact.quantity) for fact in facts if not fact.holds}


def test_all_facts_hold_for_sampled_pairs(pairs, groups):
    facts = check_structure(pairs, groups, neighbors=5)
    assert broken(facts) == set()
    assert {fact.method for fact in facts} == set(samplers.METHODS)


@pytest.mark.parametrize(
    ("method", "change", "quantity"),
    [
        ("c2c_cocaption", lambda p: p[1:], "images whose captions form one cycle"),
        ("i2i_csim", lambda p: np.concatenate([p, p[:1]]), "repeated in the same order"),
        ("i2i_csim", lambda p: p[(p != 3).any(axis=1)][:60], "pairs of an image, fewest"),
        (
            "c2i_original",
            lambda p: p * [1, 0] + np.roll(p, 1, axis=0) * [0, 1],
            "captions with their own image",
        ),
    ],
)
def test_what_is_broken_is_named(pairs, groups, method, change, quantity):
    facts = check_structure({**pairs, method: change(pairs[method])}, groups, neighbors=5)
    assert (method, quantity) in broken(facts)
