"""The command that draws figures of rated pairs."""

import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from data_prep.cxc.cxc_files import THRESHOLDS
from xmodal.apps.analysis import describe
from xmodal.apps.analysis.ratings import rating_plots, score_statistics
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs, read_folder


def run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["describe", *map(str, args)])
    describe.main()


def shaded(png):
    """Fraction of non-white pixels."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    return (pixels < 250).any(axis=-1).mean()


@pytest.mark.slow
def test_figures_of_a_prepared_dataset(few_shapes, tmp_path, monkeypatch, capsys):
    run(
        monkeypatch, "--dataset=crisscrossed_shapes", f"--data_dir={few_shapes}",
        "--split=validation", f"--output={tmp_path / 'out'}",
    )  # fmt: skip
    printed = capsys.readouterr().out
    names = ["cosines", "distributions", "positives", "rated_twice", "rater_spread"]
    assert sorted(path.stem for path in tmp_path.glob("out/*.png")) == names
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    latex = (tmp_path / "out" / "summary.tex").read_text().splitlines()
    assert [line.split(" & ")[1] for line in latex if " & " in line][1:] == [
        each["method"].replace("_", r"\_") for each in summary["rows"]
    ]
    rows = {(row["rating"], row["method"]): row for row in summary["rows"]}
    assert rows["sts", "c2c_cocaption"]["pairs"] == 125
    assert rows["sits", "c2i_original"]["pairs"] == 125
    # The simulated raters differ most on caption pairs and least on caption-image pairs.
    spread = [rows[rating]["rater_deviation"] for rating in (("sts", "all"), ("sits", "all"))]
    assert spread[0] > spread[1] > 0.2
    assert "c2c_cocaption" in printed


def test_figures_of_csv_files_and_embeddings(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{k},{k + 1},{rng.uniform(0, 5):.2f},near" for k in range(60)]
    header = "caption1,caption2,agg_score,sampling_method"
    (tmp_path / "sts_test.csv").write_text("\n".join([header, *rows]))
    np.savez(
        tmp_path / "model.npz",
        caption_ids=np.arange(61),
        caption_embeddings=rng.normal(size=(61, 3)).astype(np.float32),
    )
    out = tmp_path / "out"
    out.mkdir()
    (out / "rater_spread.png").write_bytes(b"of another dataset")
    common = [f"--ratings_dir={tmp_path}", f"--output={out}"]
    run(monkeypatch, *common, f"--embeddings={tmp_path / 'model.npz'}")
    printed = capsys.readouterr().out
    assert sorted(path.stem for path in out.glob("*.png")) == [
        "cosines",
        "distributions",
        "positives",
    ]
    spread, twice = (line for line in printed.splitlines() if line.startswith("Without"))
    assert spread == "Without rater_spread: that needs the scores of single raters."
    assert twice.startswith("Without rated_twice: ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--ratings_dir={}"], "has none of sts_test.csv"),
        (["--dataset=flickr8k", "--data_dir={}"], "python -m data_prep.build --dataset=flickr8k"),
        (["--ratings_dir={}/good", "--texts={}"], "has no dataset_coco.json"),
        (["--ratings_dir={}/good", "--embeddings={}/none.npz"], "There is no file"),
        (["--ratings_dir={}/good", "--embeddings={}/far.npz"], "has both items of none"),
        (["--ratings_dir={}/bad"], "line 2: the score 7 is not from 0 to 5"),
        (["--ratings_dir={}/odd"], "line 2: image1 is 'x', no id or COCO name"),
        (["--ratings_dir={}/empty"], "has no pairs"),
    ],
)
def test_mistakes_are_named_without_a_stack_trace(tmp_path, monkeypatch, args, message):
    header = "image1,image2,agg_score,sampling_method\n"
    rows = {"good": "1,2,3,m\n", "bad": "1,2,7,m\n", "odd": "x,2,3,m\n", "empty": ""}
    for name, row in rows.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "sis_test.csv").write_text(header + row)
    far = np.ones((1, 2), np.float32)
    np.savez(tmp_path / "far.npz", image_ids=np.array([99]), image_embeddings=far)
    with pytest.raises(SystemExit) as error:
        run(monkeypatch, *(arg.format(tmp_path) for arg in args), f"--output={tmp_path / 'out'}")
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def many_methods(number):
    rng = np.random.default_rng(0)
    return RatedPairs(
        rating="semantics",
        left_ids=None,
        right_ids=None,
        methods=np.array([f"set_{k % number}$^" for k in range(600)]),
        scores=rng.integers(0, 6, 600).astype(np.float32),
        rater_scores=rng.uniform(0, 5, (600, 3)).astype(np.float32),
    )


def test_figures_of_many_sets_without_ids():
    pairs = {"semantics": many_methods(9)}
    tall = rating_plots.draw_distributions(pairs, title="9 sets_{")
    short = rating_plots.draw_distributions({"semantics": many_methods(1)}, title="1 set")
    heights = [Image.open(io.BytesIO(png)).size[1] for png in (tall, short)]
    assert heights[0] - heights[1] == pytest.approx(9 * 0.75 * 150, abs=2)
    assert rating_plots.draw_positives(pairs, {"sts": 3.0}) == b""
    assert shaded(rating_plots.draw_positives(pairs, {"semantics": 3.0})) > 0.02
    cosines = {"semantics": np.linspace(-1, 1, 600)}
    drawn = rating_plots.draw_cosines(pairs, cosines, by="x")
    assert shaded(drawn) > 0.05
    assert rating_plots.draw_cosines(pairs, cosines, by="x") == drawn
    assert rating_plots.draw_cosines(pairs, {"semantics": np.full(600, np.nan)}, by="") == b""
    assert shaded(rating_plots.draw_rater_spread(pairs)) > 0.01
    assert rating_plots.draw_rated_twice(pairs) == b""


@pytest.mark.parametrize(
    "scores", [[2.0, 2.0], [0.0, 5.0], [1.0, 4 / 3, 5 / 3, 4.0], np.linspace(0.1, 4.9, 200)]
)
def test_every_score_is_in_a_bin_whose_bar_is_near(scores):
    scores = np.array(scores, np.float32)
    edges, places = rating_plots._bins(scores)
    assert (np.diff(edges) > 0).all()
    assert ((edges[:-1] < places) & (places < edges[1:])).all()
    assert np.histogram(scores, edges)[0].sum() == len(scores)
    if len(scores) == 4:
        np.testing.assert_allclose(places, scores, atol=1e-4)


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
    assert len(score_statistics.rated_twice(rated["sis"])) == 2_863
