"""Board definitions are data: every name in them must be known."""

import itertools

import pytest

from xmodal.evals.labels import definitions

METRICS = {"recall@1", "recall@5", "recall@10", "mrr", "median_rank"}
METRICS |= {"map@r", "r_precision", "pmrp"}
ALL = list(itertools.chain.from_iterable(definitions.DEFINITIONS.values()))


@pytest.mark.parametrize("definition", ALL, ids=lambda each: each.name)
def test_names_are_known(definition):
    assert definition.sentence.endswith(".")
    assert set(definition.directions) <= set(definitions.DIRECTIONS)
    assert set(definition.metrics) <= METRICS
    ratings = {*definition.thresholds, *definition.correlations}
    assert ratings <= set(definitions.RATING_SIDES)
    if definition.zetas:
        assert list(definition.zetas) == sorted(definition.zetas)
        assert not definition.thresholds
        assert not definition.released


def test_board_names_differ():
    names = [each.name for each in ALL]
    assert len(set(names)) == len(names)
    assert set(definitions.definitions_of("coco_captions")) == {
        "coco5k",
        "coco1k",
        "cxc",
        "cxc_sits_only",
        "eccv",
        "pmrp",
        "pmrp_zeta0",
        "pmrp_pcme",
        "pmrp_pcme_1k",
        "vinvl_1k",
    }


def test_a_dataset_without_an_entry_has_its_own_pairs():
    (definition,) = definitions.definitions_of("mine").values()
    assert definition.name == "mine"
    assert definition.own
    assert not definition.thresholds
