"""Facts about sampled pairs hold for pairs from the scheme, but not for others."""

import numpy as np
import pytest

from data_prep.sampling import scheme
from data_prep.sampling.groups import number_groups
from xmodal.apps.analysis.sampling import samplers
from xmodal.apps.analysis.sampling.structure import check_structure, format_facts

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


def found(facts, quantity):
    return [fact.found for fact in facts if fact.quantity == quantity]


def test_all_facts_hold_for_sampled_pairs(pairs, groups):
    facts = check_structure(pairs, groups, neighbors=5)
    assert broken(facts) == set()
    assert {fact.method for fact in facts} == set(samplers.METHODS)
    assert found(facts, "images whose captions form one cycle") == [40]
    table = format_facts(facts)
    assert "DIFFERS" not in table
    assert len(table.splitlines()) == len(facts) + 1


@pytest.mark.parametrize(
    ("method", "change", "quantity"),
    [
        ("c2c_cocaption", lambda p: p[1:], "images whose captions form one cycle"),
        ("c2c_cocaption", lambda p: np.roll(p, 5, axis=0) * [0, 1] + p * [1, 0],
         "pairs across images"),
        ("c2c_isim", lambda p: np.concatenate([p, p[:1, ::-1]]),
         "images joined twice, in any order"),
        ("c2c_isim", lambda p: p[(p // 5 != 3).all(axis=1)], "pairs of an image, fewest"),
        ("i2i_csim", lambda p: np.concatenate([p, p[:1]]), "repeated in the same order"),
        ("i2i_csim", lambda p: p[(p != 3).any(axis=1)][:60], "pairs of an image, fewest"),
        ("c2i_original", lambda p: np.roll(p, 1, axis=0) * [0, 1] + p * [1, 0],
         "captions with their own image"),
        ("c2i_intrasim", lambda p: np.concatenate([p, p[:1]]), "repeated in the same order"),
        ("c2i_intrasim", lambda p: p[(p[:, 0] // 5 != 7) & (p[:, 1] != 7)],
         "images without any"),
    ],
)  # fmt: skip
def test_what_is_broken_is_named(pairs, groups, method, change, quantity):
    facts = check_structure({**pairs, method: change(pairs[method])}, groups, neighbors=5)
    assert (method, quantity) in broken(facts)
