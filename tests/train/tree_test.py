import jax
import numpy as np
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.core.tree_paths import leaves_by_path
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
    assert set(leaves_by_path(kept).values()) == frozen
    assert set(leaves_by_path(trained).values()) == {1, 2, 3, 4, 5} - frozen
    assert tree.merge(trained, kept) == PARAMS


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


@pytest.mark.parametrize("rule", [mesh_lib.replicated, mesh_lib.batch_sharded])
def test_given_rows_of_a_table_are_replaced(rule):
    home = rule(mesh_lib.make_mesh())
    table = jax.device_put(np.arange(32.0, dtype=np.float32).reshape(16, 2), home)
    state = tree.TrainState(0, {"text": {"table": table}}, {}, {}, ())
    rows = {3: np.array([7.0, 8.0]), 0: np.array([5.0, 6.0])}
    found = tree.replace_arrays(state, {}, {"text/table": rows}).params["text"]["table"]
    expected = np.arange(32.0).reshape(16, 2)
    expected[[3, 0]] = [[7, 8], [5, 6]]
    np.testing.assert_array_equal(found, expected)
    assert found.sharding == home
