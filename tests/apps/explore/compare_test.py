"""Comparisons of several models' results, against their files."""

import json

import numpy as np
import pytest
from scipy import stats

import xmodal
from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.apps.explore import compare as compare_lib
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
    assert "shapes_own/mean/recall@1" in comparison.table()
    assert cells(comparison.table(tags[:1]))[2:] == rows[:1]


def test_results_that_cannot_be_compared(saved, tmp_path):
    folders, _ = saved
    with pytest.raises(xmodal.UserError, match="neither a finished run nor the results"):
        xmodal.compare({"one": folders["first"], "two": tmp_path})
    save(tmp_path / "other", 0, make_split(20, captions=2, seed=7))
    with pytest.raises(xmodal.UserError, match="labels of benchmark shapes_own differ"):
        xmodal.compare({"one": folders["first"], "two": tmp_path / "other"})


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
    assert compare_lib.read_names([*patterns.values()]) == {
        each: each for each in patterns.values()
    }
    comparison = xmodal.compare(patterns)
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
