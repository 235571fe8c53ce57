"""Differences of two models against a slow loop; models that cannot be compared."""

import dataclasses

import numpy as np
import pytest

from tests.evals.reports.directions import make_direction
from xmodal.core.errors import UserError
from xmodal.evals import Evaluation
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports import paired_differences, summary, uncertainty
from xmodal.evals.reports.metrics import (
    compute_influence,
    compute_median_rank,
    compute_spearman,
    draw_pairs,
)
from xmodal.evals.reports.results import CorrelationResult, Provenance, Result
from xmodal.evals.reports.uncertainty import compute_difference_interval

METRICS = ("recall@1", "recall@10", "median_rank")
CLUSTERS = np.repeat(np.arange(90), 3).astype(np.int32)


def make_model(seed, *, shift=0.0, **changes):
    """Models share how hard images and pairs are; `seed` makes their own noise."""
    common = np.random.default_rng(100)
    own = np.random.default_rng(seed)
    hard = common.normal(1.5, 1.5, 90)[CLUSTERS] + common.normal(0, 1, len(CLUSTERS))
    noise = own.normal(0, 0.5, (2, len(CLUSTERS)))
    directions = {
        "t2i": make_direction(np.exp(hard + noise[0] + shift), CLUSTERS),
        "i2t": make_direction(np.exp(hard + noise[1] + shift)[::3], CLUSTERS[::3]),
    }
    images = common.permutation(np.repeat(np.arange(90), 4)).reshape(2, 180)
    rated = common.normal(0, 1, 180)
    scores = rated + common.normal(0, 0.5, 180) + own.normal(0, 0.5 + shift, 180)
    # Every pair is a query of its own.
    drawn = draw_pairs(Ragged(np.arange(181), np.arange(180)), samples=400, seed=0)
    influence = 100 * compute_influence(scores, rated, np.full(180, 1 / 180))
    spearman = 100 * compute_spearman(scores, rated, drawn)
    sts = CorrelationResult(spearman, 90, images, influence)
    benchmark = Result("b", "any", "00ff", directions, {"sts": sts})
    results = [dataclasses.replace(benchmark, **changes)]
    return Evaluation(f"model {seed}", results, "cosine", Provenance("t"))


def test_equals_a_slow_loop():
    ours, theirs = make_model(1), make_model(2, shift=0.1)
    found = paired_differences.compare(dataclasses.replace(ours, samples=83, seed=5), theirs)
    counts = uncertainty.draw_resamples(90, 83, 5)
    for name in ("t2i", "i2t"):
        one, other = (model.results[0].directions[name] for model in (ours, theirs))
        slow = {metric: [] for metric in METRICS}
        for weights in counts.astype(int):
            chosen = np.repeat(np.arange(len(one.rank)), weights[one.clusters])
            a, b = one.rank[chosen], other.rank[chosen]
            for k in (1, 10):
                slow[f"recall@{k}"].append(100 * (np.mean(a < k) - np.mean(b < k)))
            median = compute_median_rank(a) - compute_median_rank(b)
            slow["median_rank"].append(median)
        for metric, samples in slow.items():
            limits = uncertainty.compute_interval(np.array(samples))
            difference = found[f"b/{name}/{metric}"]
            assert (difference.low, difference.high) == pytest.approx(limits, abs=1e-12)
    values, others = (summary.summarize(m.results, intervals=False) for m in (ours, theirs))
    assert set(found) == {
        *(f"b/{direction}/{metric}" for direction in ("t2i", "i2t") for metric in METRICS),
        "b/mean/recall@1",
        "b/mean/recall@10",
        "b/sts/spearman",
    }
    assert all((x.value, x.other) == (values[tag], others[tag]) for tag, x in found.items())
    spearman = found["b/sts/spearman"]
    pair = (model.results[0].correlations["sts"] for model in (ours, theirs))
    assert (spearman.low, spearman.high) == compute_difference_interval(*pair)


def test_a_model_against_itself_and_against_a_worse_one():
    same = paired_differences.compare(make_model(1), make_model(1))
    assert {(each.difference, each.low, each.high) for each in same.values()} == {(0, 0, 0)}
    assert not any(each.separable for each in same.values())
    better = paired_differences.compare(make_model(1), make_model(2, shift=1.0))
    assert all(each.separable for each in better.values())
    assert better["b/t2i/recall@1"].low > 0
    assert better["b/t2i/median_rank"].high < 0


def test_queries_are_matched_by_id():
    ours, theirs = make_model(1), make_model(2)
    rows = np.random.default_rng(0).permutation(len(CLUSTERS))
    (benchmark,), t2i = theirs.results, theirs.results[0].directions["t2i"]
    names = ("query_ids", "clusters", "rank", "tied")
    fields = {name: getattr(t2i, name)[rows] for name in names}
    fields["values"] = {metric: values[rows] for metric, values in t2i.values.items()}
    directions = benchmark.directions | {"t2i": dataclasses.replace(t2i, **fields)}
    shuffled = make_model(2, directions=directions)
    found, expected = (paired_differences.compare(ours, x) for x in (shuffled, theirs))
    assert found == expected


@pytest.mark.parametrize("change", [{"label_hash": "beef"}, {"name": "c"}])
def test_models_that_cannot_be_compared(change):
    with pytest.raises(UserError, match="on the same labels, and those of model 2 are"):
        paired_differences.compare(make_model(1), make_model(2, **change))


def test_table_and_numbers():
    found = {
        "b/t2i/recall@1": paired_differences.Difference(50.0, 47.5, 0.25, 4.75),
        "b/t2i/median_rank": paired_differences.Difference(2.0, 3.0, -1.0, 0.0),
    }
    differences = paired_differences.Differences(found, name="new", other="old")
    text = str(differences)
    assert text.startswith(
        "## new against old\n\n"
        "| Metric            |   new |   old | difference |  95 % interval | separable |\n"
        "| ----------------- | ----: | ----: | ---------: | -------------: | --------: |\n"
        "| b/t2i/recall@1    | 50.00 | 47.50 |      +2.50 | +0.25 to +4.75 |       yes |\n"
        "| b/t2i/median_rank |     2 |     3 |         -1 |       -1 to +0 |        no |\n\n"
        "1 of 2 differences are separable from noise"
    )
