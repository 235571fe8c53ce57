"""Reading ranked lists in the form that the eccv_caption library takes."""

import json

import numpy as np
import pytest

from xmodal.evals import rankings
from xmodal.options import UserError


def test_lists_keep_their_order(tmp_path):
    path = tmp_path / "ranked.json"
    path.write_text(json.dumps({"i2t": {"3": [30, 7, 12], "1": [7]}}))
    found = rankings.load_rankings(path)
    assert list(found.i2t) == [3, 1]
    np.testing.assert_array_equal(found.i2t[3], [30, 7, 12])
    assert found.t2i is None
    same = rankings.load_rankings({"t2i": {7: np.array([3, 1], np.int32)}})
    np.testing.assert_array_equal(same.t2i[7], [3, 1])
    assert same.t2i[7].dtype == np.int64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"ranked.json is no JSON file \(.*line 1"),
        ("[1, 2]", "holds list; rankings are looked for under 'i2t'"),
        ('{"image": {}}', r"holds \['image'\]; rankings are looked for under 'i2t'"),
        ('{"i2t": [[1]]}', "'i2t' in .* is no mapping of query ids"),
        ('{"t2i": {}}', "'t2i' in .* is no mapping of query ids"),
        ('{"i2t": {"a.jpg": [1]}}', "Query 'a.jpg' under 'i2t' in .* is no id"),
        ('{"i2t": {"1": [4], "01": [5]}}', "Query 1 occurs twice under 'i2t'"),
        ('{"i2t": {"1": []}}', "The i2t list of query 1 in .* is empty; give at least its best"),
        ('{"i2t": {"1": 5}}', "The i2t list of query 1 in .* is no list of ids"),
        ('{"i2t": {"1": "5"}}', "query 1 in .* is no list of ids"),
        ('{"i2t": {"1": [5.5]}}', "query 1 in .* holds something other than integer ids"),
        ('{"i2t": {"1": [[5], [6, 7]]}}', "query 1 in .* holds something other than integer ids"),
        ('{"t2i": {"8": [5, 6, 5]}}', "The t2i list of query 8 in .* names item 5 twice"),
    ],
)
def test_lists_that_are_no_rankings(tmp_path, text, message):
    path = tmp_path / "ranked.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        rankings.load_rankings(path)


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"no file '.*none.json'"):
        rankings.load_rankings(tmp_path / "none.json")
