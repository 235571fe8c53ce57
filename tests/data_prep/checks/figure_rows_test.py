"""Verdicts on figures, and checks of rated pairs."""

import math

import pytest

import data_prep
from data_prep import schema
from data_prep.checks import identity
from data_prep.checks.figure_rows import (
    DIFFERS,
    KNOWN,
    NOTED,
    OK,
    PART,
    judge,
    lookup,
)
from data_prep.checks.split_contents import SplitContents
from data_prep.published_figures import Known, Unknown, Within


@pytest.mark.parametrize(
    ("found", "figure", "part", "verdict"),
    [
        (5, 5, False, OK),
        (4, 5, False, DIFFERS),
        (4, 5, True, PART),
        (6, 5, True, DIFFERS),
        ("5", "5", False, OK),
        ("4 to 5", "5", True, DIFFERS),
        (5, None, False, NOTED),
        (5, Unknown("why"), False, NOTED),
        (610, Known(610, "leak"), False, KNOWN),
        (609, Known(610, "leak"), False, DIFFERS),
        (609, Known(610, "leak"), True, PART),
        (0, Within(0, 5), False, OK),
        (5.0, Within(0, 5), False, OK),
        (5.1, Within(0, 5), True, DIFFERS),
        (-0.1, Within(0, 5), False, DIFFERS),
        (math.nan, Within(0, 5), False, DIFFERS),
    ],
)
def test_verdicts(found, figure, part, verdict):
    assert judge("row", found, figure, part=part).verdict == verdict


def test_names_come_before_patterns():
    figures = {"test/a*": 1, "test/ab": 2}
    assert lookup(figures, "test/ab", None) == 2
    assert lookup(figures, "test/ac", None) == 1
    assert lookup(figures, "train/x", 5) == 5


@pytest.mark.parametrize("dataset", sorted(data_prep.BUILDERS))
def test_every_dataset_has_published_figures(dataset):
    builder = data_prep.builder_class(dataset)
    for config in () if builder.OWN_FILES else builder.builder_configs:
        assert builder.published_figures(config), f"{dataset}/{config} has no figures"
    for name in builder.REFERS_TO:
        joined, _, joined_config = name.partition("/")
        assert joined_config in data_prep.builder_class(joined).builder_configs


def _rated(*pairs):
    columns = SplitContents(dict(schema.rating_features().items()))
    for rating, method, left, right, score in pairs:
        columns.add(
            {
                "rating": rating.encode(),
                "method": method.encode(),
                "left_id": left,
                "right_id": right,
                "score": score,
                "rater_scores": [],
            }
        )
    return _Dataset(columns)


class _Dataset:
    """A prepared dataset with one split and a few figures."""

    def __init__(self, columns, is_part=False):
        self.splits, self.is_part = {"test": columns}, is_part
        self.figures = {}

    def row(self, name, found, default=None, *, note=""):
        figure = lookup(self.figures, name, default)
        return judge(name.removeprefix("test/"), found, figure, part=self.is_part, note=note)


def test_pairs_in_both_orders_and_repeated():
    circle = [("sts", "c2c_cocaption", k, (k + 1) % 5, 3.0) for k in range(5)]
    dataset = _rated(*circle, ("sis", "i2i_csim", 1, 2, 1.0), ("sis", "i2i_csim", 2, 1, 4.0))
    rows = {row.name: row.found for row in identity.pairs(dataset)}
    assert rows["pairs in both orders with rating=sis, method=i2i_csim"] == 1
    assert rows["pairs in both orders with rating=sts, method=c2c_cocaption"] == 0
    rows = {row.name: row.found for row in identity.pairs(_rated(*circle, circle[0]))}
    assert rows["pairs repeated with rating=sts, method=c2c_cocaption"] == 1
