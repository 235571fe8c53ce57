import pytest

from xmodal.train import tree

PARAMS = {
    "image": {"projection": {"kernel": 1, "bias": 2}},
    "text": {"bert": {"layers": {"kernel": 3}, "word": 4}, "projection": {"kernel": 5}},
}


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ([], set()),
        (["text/bert/word", "image"], {1, 2, 4}),
        ([".*kernel$"], {1, 3, 5}),
    ],
)
def test_partition_by_path_and_back(patterns, frozen):
    trained, kept = tree.partition(PARAMS, patterns)
    assert set(tree.flatten(kept).values()) == frozen
    assert set(tree.flatten(trained).values()) == {1, 2, 3, 4, 5} - frozen
    assert tree.merge(trained, kept) == PARAMS


def test_a_tower_without_parameters_or_with_frozen_ones_only_stays():
    params = PARAMS | {"image": {}}
    trained, frozen = tree.partition(params, ["text/bert/"])
    assert trained["image"] == {}
    assert tree.merge(trained, frozen) == params
    trained, frozen = tree.partition(PARAMS, ["image/"])
    assert trained["image"] == {}
    assert tree.merge(trained, frozen) == PARAMS


FIXED = ["image/encoder/kernel", "image/projection/bias", "text/encoder/table"]


@pytest.mark.parametrize(
    ("trained", "frozen", "parts"),
    [
        (["image/head/w"], FIXED, {"encoder", "projection"}),
        # A partly trained part counts as trained.
        (["image/encoder/norm"], FIXED, {"projection"}),
        # Parts without parameters are frozen only with their whole tower.
        (["text/encoder/table"], FIXED[:2], {"encoder", "head", "projection"}),
        (["text/encoder/table"], [], set()),
    ],
)
def test_parts_that_run_as_in_evaluation(trained, frozen, parts):
    assert tree.frozen_parts(trained, frozen, "image") == parts
