"""The charts of a report's page, against the numbers of the same evaluation."""

import json
import re

import numpy as np
import pytest

from tests.browser import check_accessibility, check_layout, open_page
from tests.core.charts_test import read_bars
from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.evals import evaluate_source, make_evaluator
from xmodal.evals.reports.report_charts import make_charts

CURVES = {"train/loss": [(step, 10 / step) for step in range(1, 1000)], "none": []}


@pytest.fixture(scope="module")
def evaluation():
    split = make_split(30, captions=2)
    options = options_of(type="benchmarks", bootstrap_samples=50)
    evaluator = make_evaluator("x", options, split, MODALITIES)
    return evaluate_source(evaluator, make_source(split), name="<b>mine</b>", curves=CURVES)


def test_bars_are_the_numbers_of_metrics_json(evaluation, tmp_path):
    evaluation.save(tmp_path)
    numbers = json.loads((tmp_path / "metrics.json").read_text())
    (charts, curves) = make_charts(evaluation).values()
    widths, ends, chance = read_bars(charts[0])
    tags = [
        f"shapes_own/{direction}/recall@{k}" for direction in ("i2t", "t2i", "t2t")
        for k in (1, 5, 10)
    ]  # fmt: skip
    labels = [f"{arrow} R@{k}" for arrow in ("I→T", "T→I", "T→T") for k in (1, 5, 10)]
    assert [bar.label for bar in charts[0].bars] == labels
    np.testing.assert_allclose(widths, [numbers[tag] for tag in tags], atol=0.03)
    limits = [[numbers[f"{tag}_low"], numbers[f"{tag}_high"]] for tag in tags]
    np.testing.assert_allclose(ends, limits, atol=0.03)
    np.testing.assert_allclose(chance, [evaluation.chance[tag] for tag in tags], atol=0.03)
    assert [each.title for each in curves] == ["train/loss"]
    (points,) = curves[0].series.values()
    assert len(points) == 200
    assert points[0] == (3, pytest.approx(np.mean([10 / step for step in range(1, 6)])))


def test_ranks_and_scores_are_shares_of_queries_and_pairs(evaluation):
    _, ranks, *scores = next(iter(make_charts(evaluation).values()))
    rank = evaluation.results[0].directions["i2t"].rank + 1
    bins = [np.mean((rank > n // 2) & (rank <= n)) for n in (1, 2, 4, 8, 16, 32, 64)]
    heights = [y for _, y in ranks.series["I→T"]][1:-1:2]
    np.testing.assert_allclose(heights, 100 * np.array(bins)[: len(heights)])
    assert list(ranks.x_labels.values())[:3] == ["1", "2", "4"]
    assert [each.title[:3] for each in scores] == ["I→T", "T→T"]
    positive, other = evaluation.similarities["shapes_own/i2t"]
    assert len(positive) == 2 * 30  # Every image has two captions.
    assert positive.mean() > other.mean() + 0.2
    for each in scores:
        for line in each.series.values():
            assert sum(y for _, y in line[1:-1:2]) == pytest.approx(100)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_page_in_a_browser(chromium, evaluation, tmp_path, size):
    evaluation.save(tmp_path, comparison=evaluation.compare(evaluation))
    text = (tmp_path / "report.html").read_text()
    assert "<b>mine" not in text
    assert len(re.findall("<svg role", text)) == 5
    with open_page(chromium, tmp_path / "report.html", size=size, scheme="dark") as page:
        assert page.get_by_text("against").first.is_visible()  # The comparison is not folded.
        assert page.get_by_text("Behind the numbers").is_hidden()
        page.locator("summary").press("Enter")
        page.get_by_text("Behind the numbers").wait_for()
        check_layout(page)
        check_accessibility(page)
