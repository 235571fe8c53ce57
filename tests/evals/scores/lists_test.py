"""Reading ranked lists in the format of the eccv_caption library."""

import json
import types

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Board, DirectionLabels
from xmodal.evals.scores import lists


def test_lists_keep_their_order(tmp_path):
    path = tmp_path / "ranked.json"
    path.write_text(json.dumps({"i2t": {"3": [30, 7, 12], "1": [7]}}))
    found = lists.load_rankings(path)
    assert list(found.i2t) == [3, 1]
    np.testing.assert_array_equal(found.i2t[3], [30, 7, 12])
    assert found.t2i is None
    same = lists.load_rankings({"t2i": {7: np.array([3, 1], np.int32)}})
    np.testing.assert_array_equal(same.t2i[7], [3, 1])
    assert same.t2i[7].dtype == np.int64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"i2t": {"1": [2], "1": [3]}}',
            r"ranked.json cannot be read as JSON \(the key '1' occurs twice",
        ),
        ("{", r"ranked.json cannot be read as JSON \(.*line 1"),
        ("[1, 2]", "holds list; rankings are expected under 'i2t'"),
        ('{"image": {}}', r"holds \['image'\]; rankings are expected under 'i2t'"),
        ('{"i2t": [[1]]}', "'i2t' in .* is not a mapping of query ids"),
        ('{"t2i": {}}', "'t2i' in .* is not a mapping of query ids"),
        ('{"i2t": {"a.jpg": [1]}}', "Query 'a.jpg' under 'i2t' in .* is not an id"),
        ('{"i2t": {"1": [4], "01": [5]}}', "Query 1 occurs twice under 'i2t'"),
        (f'{{"i2t": {{"{10**25}": [1]}}}}', "Query '10{25}' under 'i2t' in .* is not an id"),
        ('{"i2t": {"1.0": [1]}}', "Query '1.0' under 'i2t' in .* is not an id"),
        ('{"i2t": {"1_0": [1]}}', "Query '1_0' under 'i2t' in .* is not an id"),
        (f'{{"i2t": {{"1": [{2**63}]}}}}', "other than integer ids of int64: row 0 holds 9223"),
        (
            f'{{"i2t": {{"1": [{10**25}, 3]}}}}',
            "other than integer ids of int64: row 0 holds 10{25}",
        ),
        ('{"i2t": {"1": []}}', "The i2t list of query 1 in .* is empty; add at least its best"),
        ('{"i2t": {"1": 5}}', "The i2t list of query 1 in .* is not a list of ids"),
        ('{"i2t": {"1": "5"}}', "query 1 in .* is not a list of ids"),
        ('{"i2t": {"1": [5.5]}}', "query 1 in .* holds something other than integer ids"),
        ('{"i2t": {"1": [[5], [6, 7]]}}', r"holds something other than .*: row 0 holds \[5\]"),
        ('{"i2t": {"1": [5, "b.jpg"]}}', "query 1 in .*: row 0 holds '5'"),
        ('{"t2i": {"8": [5, 6, 5]}}', "The t2i list of query 8 in .* names item 5 twice"),
    ],
)
def test_lists_that_are_no_rankings(tmp_path, text, message):
    path = tmp_path / "ranked.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        lists.load_rankings(path)


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"no file '.*none.json'"):
        lists.load_rankings(tmp_path / "none.json")


LABELS = types.SimpleNamespace(
    image_ids=np.array([5, 3, 9]), caption_ids=np.array([50, 51, 30, 90, 91])
)


def board(name="cxc", asked=(True, True, True)):
    rows = np.flatnonzero(asked)
    positives = Ragged.from_pairs(rows, np.zeros_like(rows), len(asked))
    return Board(name, "", {"i2t": DirectionLabels(positives, ("recall@1",))}, {}, "")


def order(i2t, *boards):
    saved = lists.load_rankings({"i2t": i2t})
    return lists.order_rankings(saved, LABELS, boards)


def test_lists_become_positions_in_the_order_of_the_split():
    found = order({9: [91, 30], 5: [50], 3: [30, 91, 51]}, board())
    assert list(found) == ["i2t"]
    assert found["i2t"].offsets.tolist() == [0, 1, 4, 6]
    assert found["i2t"].values.tolist() == [0, 2, 4, 1, 4, 2]


def test_queries_that_no_board_asks_need_no_list():
    found = order({9: [91, 30]}, board(asked=(False, False, True)))
    assert found["i2t"].lengths.tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("i2t", "message"),
    [
        (
            {5: [50], 4: [50], 3: [50], 9: [50]},
            "1 of the 4 lists under 'i2t' in <arrays> are for queries that are not images of "
            "this split, the first for 4; leave them out",
        ),
        (
            {5: [50], 3: [50, 55, 56], 9: [50]},
            "list of query 3 under 'i2t' in <arrays> names 55, which is not a caption of this "
            r"split \(nor are 1 other entries\)",
        ),
        (
            {5: [50]},
            "no list under 'i2t' in <arrays> for 2 of the 3 images that are queries of cxc, eccv, "
            "the first is 3; add them, or name in `boards`",
        ),
    ],
)
def test_lists_that_do_not_fit_the_split(i2t, message):
    with pytest.raises(UserError, match=message):
        order(i2t, board(), board("eccv", (True, False, True)))


@pytest.mark.parametrize("key", [10**25, 2**63, np.uint64(2**63), 770337.7, np.float64(5.5), True])
def test_a_key_that_is_not_an_id(key):
    with pytest.raises(UserError, match="under 'i2t' in <arrays> is not an id; ids must be integ"):
        lists.load_rankings({"i2t": {3: [4], key: [5]}})


def test_keys_that_are_ids():
    given = {"i2t": {np.int32(3): [4], " 12 ": np.array([5], np.uint64), 2**63 - 1: [6]}}
    assert list(lists.load_rankings(given).i2t) == [3, 12, 2**63 - 1]
