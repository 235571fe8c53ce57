"""Comparisons of several models' results, against their files."""

import csv
import io
import json
import re

import numpy as np
import pytest
from scipy import stats

import xmodal
from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.apps.explore import compare as compare_lib
from xmodal.apps.explore.clip_benchmark import format_clip_benchmark
from xmodal.apps.explore.seed_plot import draw_runs
from xmodal.evals import evaluate_source, make_evaluator


def save(folder, seed, split=None):
    split = split or make_split(20, captions=2)
    evaluator = make_evaluator(
        "x", options_of(type="benchmarks", bootstrap_samples=50), split, MODALITIES
    )
    evaluation = evaluate_source(evaluator, make_source(split, seed), name=f"model {seed}")
    evaluation.save(folder)
    return evaluation


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Model -> folder, and the evaluations."""
    root = tmp_path_factory.mktemp("results")
    folders = {"first": root / "a", "second": root / "b", "third": root / "c"}
    return folders, [save(folder, seed) for seed, folder in enumerate(folders.values())]


def cells(table):
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def test_a_table_of_the_numbers_in_the_files(saved):
    folders, _ = saved
    comparison = xmodal.compare(folders)
    tags = ["shapes_own/t2i/recall@5", "shapes_own/t2t/recall@1"]
    head, _, *rows = cells(comparison.table(tags))
    assert head == ["", "first", "second", "third"]
    files = [json.loads((each / "metrics.json").read_text()) for each in folders.values()]
    assert rows == [[tag, *(f"{numbers[tag]:.2f}" for numbers in files)] for tag in tags]
    assert "shapes_own/t2i/recall@1" in comparison.table()
    assert cells(comparison.table(tags[:1]))[2:] == rows[:1]


def test_results_that_cannot_be_compared(saved, tmp_path):
    folders, _ = saved
    with pytest.raises(xmodal.UserError, match="neither a finished run nor the results"):
        xmodal.compare({"one": folders["first"], "two": tmp_path})
    save(tmp_path / "other", 0, make_split(20, captions=2, seed=7))
    with pytest.raises(xmodal.UserError, match="labels of benchmark shapes_own differ"):
        xmodal.compare({"one": folders["first"], "two": tmp_path / "other"})


def test_rows_of_clip_benchmark(saved, monkeypatch, capsys):
    folders, _ = saved
    monkeypatch.setattr("sys.argv", ["compare", f"first={folders['first']}", "--clip_benchmark"])
    compare_lib.main()
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    numbers = json.loads((folders["first"] / "metrics.json").read_text())
    assert (row["dataset"], row["task"]) == ("shapes_own", "zeroshot_retrieval")
    assert (row["model"], row["pretrained"]) == ("first", "xmodal")
    for direction, column in (("i2t", "text"), ("t2i", "image")):
        found = float(row[f"{column}_retrieval_recall@5"])
        assert found == pytest.approx(numbers[f"shapes_own/{direction}/recall@5"] / 100)

    tags = {"accuracy@1": 50.0, "accuracy@5": 80.0, "mean_class_accuracy": 40.0}
    kinds = {"zero_shot": "zeroshot_classification", "pets/linear_probe": "linear_probe"}
    both = {f"{kind}/{tag}": value for kind in kinds for tag, value in tags.items()}
    first, second = csv.DictReader(io.StringIO(format_clip_benchmark({"m": both})))
    assert [first["task"], second["task"]] == list(kinds.values())
    assert (first["acc1"], first["acc5"], first["mean_per_class_recall"]) == ("0.5", "0.8", "0.4")
    assert (second["lp_acc1"], second["lp_mean_per_class_recall"]) == ("0.5", "0.4")


def save_seeds(root, values):
    """Runs in folders of `root` with these seeds and R@1, and a metric that all have equal."""
    for seed, value in values.items():
        (root / f"run_{seed}" / "test").mkdir(parents=True)
        metrics = {"b/i2t/recall@1": value, "b/i2t/recall@10": 100.0, "b/i2t/queries": 9}
        (root / f"run_{seed}" / "test" / "metrics.json").write_text(json.dumps(metrics))
        (root / f"run_{seed}" / "config.json").write_text(json.dumps({"seed": seed}))
    return str(root / "run_*")


@pytest.mark.parametrize(
    ("ours", "theirs", "test", "how"),
    [
        ([50, 60, 71], [48, 59, 68], stats.ttest_rel, "paired by their seeds, 0, 1, 2"),
        ([50, 60, 71], [48, 59], stats.ttest_ind, "3 and 2 runs, not paired (Welch)"),
    ],
)
def test_several_runs_are_tested_over_their_seeds(tmp_path, ours, theirs, test, how):
    both = {"a": ours, "b": theirs}
    patterns = {name: save_seeds(tmp_path / name, dict(enumerate(x))) for name, x in both.items()}
    listed = ",".join(str(tmp_path / "a" / f"run_{seed}") for seed in range(len(ours)))
    names = [*patterns.values(), listed]
    assert compare_lib.read_names(names) == {each: each for each in names}
    comparison = xmodal.compare(patterns)
    assert xmodal.compare({"a": listed, "b": patterns["b"]}).metrics == comparison.metrics
    table = {row[0]: row[1:] for row in cells(comparison.table(["*"]))}
    assert table["b/i2t/recall@1"][0] == f"{np.mean(ours):.2f} ± {np.std(ours, ddof=1):.2f}"
    assert table["b/i2t/recall@10"] == ["100.00 ± 0.00"] * 2
    welch = {} if test is stats.ttest_rel else {"equal_var": False}
    low, high = test(ours, theirs, **welch).confidence_interval()
    text = comparison.differences("a", "b")
    assert how in text
    (row,) = [row for row in cells(text) if row[0] == "b/i2t/recall@1"]
    assert row[4:] == [f"{low:+.2f} to {high:+.2f}", "yes" if low > 0 else "no"]
    assert ["b/i2t/recall@10", "100.00", "100.00", "+0.00", "+0.00 to +0.00", "no"] in cells(text)


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """Two folders of runs `seed_*`, with results by query."""
    root = tmp_path_factory.mktemp("groups")
    for name, seeds in (("a", (0, 1, 2)), ("b", (3, 4, 5))):
        for number, seed in enumerate(seeds):
            save(root / name / f"seed_{number}", seed)
    return {name: root / name for name in ("a", "b")}


def test_groups_are_paired_by_the_seeds_of_their_folders(groups):
    tag = "shapes_own/i2t/recall@5"
    comparison = xmodal.compare(groups)
    files = [groups[name] / f"seed_{n}/metrics.json" for name in groups for n in range(3)]
    values = [json.loads(each.read_text())[tag] for each in files]
    found = comparison._differences("a", "b")
    assert "paired by their seeds, 0, 1, 2" in found.shared
    low, high = stats.ttest_rel(values[:3], values[3:]).confidence_interval()
    assert (found[tag].low, found[tag].high) == pytest.approx((low, high))
    low, high = stats.ttest_1samp(values[:3], 0).confidence_interval()
    assert comparison.limits("a", tag) == pytest.approx((low, high))


def test_the_figure_has_a_point_per_run(groups):
    comparison = xmodal.compare(groups)
    assert cells(comparison.table())[0] == ["", "a (3 runs)", "b (3 runs)"]
    drawn = draw_runs(comparison.runs, ["shapes_own/i2t/recall@5"])
    assert drawn["pdf"].startswith(b"%PDF")
    svg = drawn["svg"].decode()
    assert "mean ± standard deviation of the runs" in svg
    assert len(re.findall('<use [^>]*style="fill: #(?:2f6fab|c4572a)', svg)) == 3 * 2
    assert draw_runs(xmodal.compare(groups).runs, ["shapes_own/i2t/recall@5"]) == drawn
