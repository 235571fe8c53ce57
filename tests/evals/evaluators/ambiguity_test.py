"""Uncertainty against the number of positives."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from tests.evals.evaluators.random_vectors import MODALITIES, make_source, make_split, options_of
from xmodal.evals import evaluate_source, make_evaluator
from xmodal.evals.evaluators.ambiguity import chart_means


def make_matches(split, seed=8):
    """Every image with its own caption, and its number modulo 5 additional ones."""
    generator = np.random.default_rng(seed)
    counts = np.arange(len(split.image_ids)) % 5
    pairs = set(zip(split.caption_image_ids.tolist(), split.caption_ids.tolist(), strict=True))
    for image, count in zip(split.image_ids.tolist(), counts, strict=True):
        pairs |= {(image, int(c)) for c in generator.choice(split.caption_ids, count)}
    images, captions = np.array(sorted(pairs)).T
    return {"matches": {"i2t": (images, captions), "t2i": (captions, images)}}


@pytest.mark.parametrize("probabilistic", [True, False])
def test_ambiguity_is_the_rank_correlation_with_the_number_of_positives(probabilistic):
    split = make_split(records=30, captions=2)
    split = dataclasses.replace(split, lists=make_matches(split))
    source, generator = make_source(split), np.random.default_rng(2)
    pairs = split.lists["matches"]["i2t"]
    of_image = {i: np.sum(pairs[0] == i) for i in split.image_ids}
    of_caption = {c: np.sum(pairs[1] == c) for c in split.caption_ids}
    # The distance between the two embeddings is the number of positives plus noise.
    spreads = {
        "images": np.array([of_image[i] for i in source.image_ids]) + generator.normal(size=30),
        "captions": np.array([of_caption[c] for c in source.caption_ids]) * -1.0,
    }
    both = {
        name: getattr(source, name)[:, None] + np.exp(0.1 * spread)[:, None, None] * [[[1], [-1]]]
        for name, spread in spreads.items()
    }
    source = dataclasses.replace(source, **both)
    if probabilistic:
        drawn = generator.normal(size=(90, 6))
        sigma = {"image": drawn[:30], "text": drawn[30:] + spreads["captions"][:, None]}
        source = dataclasses.replace(source, log_sigma=sigma)
    section = {"type": "ambiguity", "benchmark": "shapes_matches", "bootstrap_samples": 4000}
    evaluator = make_evaluator("x", options_of(**section), split, MODALITIES)
    evaluation = evaluate_source(evaluator, source, name="ours")
    counts = [of_image[i] for i in source.image_ids], [of_caption[c] for c in source.caption_ids]
    for tag, modality, name, known in zip(("i2t", "t2i"), MODALITIES, both, counts, strict=True):
        if probabilistic:
            uncertainty = [np.mean(row) for row in source.log_sigma[modality]]
        else:
            uncertainty = [np.linalg.norm(a - b) for a, b in both[name]]
        expected = 100 * scipy.stats.spearmanr(uncertainty, known).statistic
        found = evaluation.metrics[f"ambiguity/{tag}/spearman"]
        # The mean correlation over halves of the queries.
        assert found == pytest.approx(expected, abs=3)
        low, high = (
            evaluation.metrics[f"ambiguity/{tag}/spearman_{end}"] for end in ("low", "high")
        )
        assert low < found < high
        assert evaluation.metrics[f"ambiguity/{tag}/pairs"] == len(known)


def test_labels_of_a_study_and_the_figure(tmp_path):
    split = make_split(records=20, captions=2)
    matches = make_matches(split)["matches"]
    for direction, pairs in matches.items():
        rows = [f"{query} 0 {item} 1" for query, item in zip(*pairs, strict=True)]
        (tmp_path / f"mine_{direction}.qrels").write_text("\n".join(rows))
    source, generator = make_source(split), np.random.default_rng(2)
    sigma = {"image": generator.normal(size=(20, 6)), "text": generator.normal(size=(40, 6))}
    source = dataclasses.replace(source, log_sigma=sigma)
    found = []
    for labels, chosen in (
        (split, {"benchmark": "mine", "annotations": str(tmp_path)}),
        (dataclasses.replace(split, lists={"matches": matches}), {"benchmark": "shapes_matches"}),
    ):
        evaluator = make_evaluator("x", options_of(type="ambiguity", **chosen), labels, MODALITIES)
        evaluation = evaluate_source(evaluator, source, name="ours")
        evaluation.save(tmp_path / chosen["benchmark"])
        found.append((evaluation.metrics, [each.series for each in evaluation.charts]))
    assert found[0] == found[1]
    assert f"\n## ambiguity ({tmp_path.name})\n" in (tmp_path / "mine/report.md").read_text()
    assert "<figcaption>Uncertainty, i2t" in (tmp_path / "mine/report.html").read_text()


def test_the_means_of_queries_with_the_same_number_of_positives():
    chart = chart_means("i2t", np.array([3.0, 1, 3]), np.array([5.0, 2, 9]))
    error = pytest.approx(2 / 2**0.5)
    mean, less, plus = chart.series.values()
    assert mean == [(1, 2), (3, 7)]
    assert [7 - less[1][1], plus[1][1] - 7] == [error, error]
