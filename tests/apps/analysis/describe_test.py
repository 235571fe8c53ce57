"""The command that draws figures of rated pairs."""

import json
import sys

import pytest

from data_prep.cxc.cxc_files import THRESHOLDS
from xmodal.apps.analysis import describe
from xmodal.apps.analysis.ratings import score_statistics
from xmodal.apps.analysis.ratings.rated_pairs import read_folder


def run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["describe", *map(str, args)])
    describe.main()


@pytest.mark.slow
def test_figures_of_a_prepared_dataset(few_shapes, tmp_path, monkeypatch, capsys):
    run(
        monkeypatch, "--dataset=crisscrossed_shapes", f"--data_dir={few_shapes}",
        "--split=validation", f"--output={tmp_path / 'out'}",
    )  # fmt: skip
    printed = capsys.readouterr().out
    names = ["cosines", "distributions", "positives", "rater_spread"]
    assert sorted(path.stem for path in tmp_path.glob("out/*.png")) == names
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    rows = {(row["rating"], row["method"]): row for row in summary["rows"]}
    assert rows["sts", "c2c_cocaption"]["pairs"] == 125
    assert rows["sits", "c2i_original"]["pairs"] == 125
    # The simulated raters differ most on caption pairs and least on caption-image pairs.
    spread = [rows[rating]["rater_deviation"] for rating in (("sts", "all"), ("sits", "all"))]
    assert spread[0] > spread[1] > 0.2
    assert "c2c_cocaption" in printed


def test_the_spread_of_raters_is_drawn_from_their_scores(tmp_path, monkeypatch, capsys):
    pair = "COCO_val2014:sentid:{},COCO_val2014:sentid:{},{},c2c_isim\n".format
    header = "caption1,caption2,agg_score,sampling_method\n"
    (tmp_path / "sts_val.csv").write_text(header + pair(1, 2, 3) + pair(3, 4, 2))
    scores = [(1, 2, 2), (1, 2, 4), (3, 4, 1), (3, 4, 2), (3, 4, 3)]
    (tmp_path / "sts_val_raw.csv").write_text(header + "".join(pair(*each) for each in scores))
    out = tmp_path / "out"
    run(monkeypatch, f"--ratings_dir={tmp_path}", "--split=validation", f"--output={out}")
    assert "5 judgments by single raters" in capsys.readouterr().out
    assert (out / "rater_spread.png").exists()
    (row,) = json.loads((out / "summary.json").read_text())["rows"]
    assert row["rater_deviation"] == pytest.approx((2**0.5 + 1) / 2)


def test_released_ratings_have_the_published_counts(real_data):
    rated = read_folder(real_data / "cxc", "test")
    summaries = score_statistics.summarize(rated, THRESHOLDS)
    found = {each.method: (each.pairs, round(each.mean, 2), each.positives) for each in summaries}
    assert found.pop("all")[0] == 44_833
    assert found == {
        "c2c_cocaption": (25_000, 3.14, 15_601),
        "c2c_isim": (19_045, 1.37, 583),
        "i2i_csim": (46_719, 2.05, 21_816),
        "c2i_original": (25_000, 4.89, 24_971),
        "c2i_intrasim": (19_833, 2.91, 10_614),
    }
