"""The counts of a build, and unique ids."""

import csv

from data_prep.building.record_counts import (
    BuildReport,
    LeftOut,
    counts_table,
    short_splits,
)


def _report(path):
    with BuildReport(path) as report:
        report.start("train")
        report.start("test")
        for converted in ("", "", "CMYK JPEG"):
            report.keep("train", converted)
        report.leave_out("train", LeftOut("a.csv line 7", "no image", 'called "x", gone'))
        report.leave_out("test", LeftOut("b\udce9.jpg", "truncated image"))
        report.leave_out("test", LeftOut("c.jpg", "no image"))
        report.leave_out("test", LeftOut("d.jpg", "no image"))
        report.leave_out("test", LeftOut("e.tar", "damaged archive", is_record=False))
    return report


def test_counts_and_rows(tmp_path):
    report = _report(tmp_path / "left_out.csv")
    assert report.metadata() == {
        "kept": {"train": 3, "test": 0},
        "left_out": {"train": {"no image": 1}, "test": {"truncated image": 1, "no image": 2}},
        "parts": {"train": {}, "test": {"damaged archive": 1}},
        "converted": {"train": {"CMYK JPEG": 1}, "test": {}},
    }
    with report.path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["split", "where", "reason", "detail"]
    assert rows[1] == ["train", "a.csv line 7", "no image", 'called "x", gone']
    assert rows[2][1:3] == ["b\\udce9.jpg", "truncated image"]
    assert len(rows) == 6


def test_the_table_names_reasons_with_the_most_frequent_first(tmp_path):
    lines = counts_table(_report(tmp_path / "left_out.csv").metadata()).split("\n")
    assert lines[1].split(maxsplit=4) == [
        "train",
        "3",
        "1",
        "1",
        "no image 1; converted: CMYK JPEG 1",
    ]
    assert lines[2].split(maxsplit=4) == [
        "test",
        "0",
        "3",
        "0",
        "no image 2, truncated image 1; besides: damaged archive 1",
    ]


def test_short_splits_are_empty_or_below_the_share():
    counts = {"kept": {"a": 3, "b": 4, "c": 0}, "left_out": {"a": {"x": 1}}}
    assert short_splits(counts, 0.75) == ["c"]
    assert short_splits(counts, 0.76) == ["a", "c"]
    assert short_splits(counts, 0.0) == ["c"]
