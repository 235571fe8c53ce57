"""Random pools against plain loops."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from tests.evals.evaluators.random_vectors import (
    MODALITIES,
    cosine,
    make_source,
    make_split,
    options_of,
    vector_of,
)
from xmodal.core.errors import UserError
from xmodal.evals import evaluate_source, make_evaluator
from xmodal.evals.reports.evaluation import load_ranks
from xmodal.evals.scores.sources import Predictions


def pool_ranks(source, split, images, captions):
    """Rank of each caption's own image, one pair at a time."""
    owner = dict(zip(split.caption_ids, split.caption_image_ids, strict=True))
    ranks = []
    for caption in captions:
        query = vector_of(source, "text", caption)
        scores = {image: cosine(query, vector_of(source, "image", image)) for image in images}
        ranks.append(1 + sum(x > scores[owner[caption]] for x in scores.values()))
    return np.array(ranks)


@pytest.mark.parametrize("captions", [1, 3])
def test_pools(captions):
    split = make_split(records=41, captions=captions)
    source = make_source(split)
    section = {"type": "pools", "size": 16, "repeats": 4, "seed": 7}
    evaluator = make_evaluator("cite", options_of(**section), split, MODALITIES)
    (found,) = evaluator.run(source)
    medians, recalls = [], []
    for images, texts in evaluator._pools:
        assert len(set(images)) == 16
        np.testing.assert_array_equal(split.caption_image_ids[texts], split.image_ids[images])
        ranks = pool_ranks(source, split, split.image_ids[images], split.caption_ids[texts])
        medians.append(np.median(ranks))
        recalls.append(100 * np.mean(ranks <= 5))
    assert any(median % 1 for median in medians)  # halves are kept
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))
    assert found.metrics["t2i/median_rank_std"] == pytest.approx(np.std(medians))
    assert found.metrics["t2i/recall@5"] == pytest.approx(np.mean(recalls))
    assert not any(tag.startswith("i2t") for tag in found.metrics)
    # The order of records and items does not matter.
    order = np.random.default_rng(3).permutation(41 * captions)
    turned = dataclasses.replace(
        split,
        image_ids=split.image_ids[::-1],
        caption_ids=split.caption_ids[order],
        caption_image_ids=split.caption_image_ids[order],
    )
    (again,) = make_evaluator("cite", options_of(**section), turned, MODALITIES).run(source)
    assert again.metrics == pytest.approx(found.metrics)


def test_pools_of_two_models_are_compared_pool_by_pool(tmp_path):
    split = make_split(records=41)
    section = {"type": "pools", "size": 16, "repeats": 6}
    evaluator = make_evaluator("x", options_of(**section), split, MODALITIES)
    sources = [make_source(split, seed) for seed in (1, 2)]
    ours, theirs = (
        evaluate_source(evaluator, source, name="A", evaluator_name="x") for source in sources
    )
    theirs.save(tmp_path / "B")
    stored = load_ranks(tmp_path / "B")
    found = ours.compare(stored)
    medians = []
    for source in sources:
        of_pools = [
            pool_ranks(source, split, split.image_ids[images], split.caption_ids[texts])
            for images, texts in evaluator._pools
        ]
        medians.append([np.median(ranks) for ranks in of_pools])
    test = scipy.stats.ttest_rel(*medians)
    interval = test.confidence_interval()
    each = found["t2i/median_rank"]
    assert each.difference == pytest.approx(np.mean(medians[0]) - np.mean(medians[1]))
    assert (each.low, each.high) == pytest.approx((interval.low, interval.high))
    assert each.separable == (test.pvalue < 0.05)


def test_captions_with_a_relation_ask_nothing():
    relations = np.random.default_rng(5).integers(0, 2, (41, 3))
    names = {"relations": ["a", "b", "c"]}
    split = make_split(records=41, labels={"relations": relations}, label_names=names)
    source = make_source(split)
    section = {"type": "pools", "size": 30, "repeats": 3}
    everyone = make_evaluator("x", options_of(**section), split, MODALITIES)
    some = make_evaluator("x", options_of(**section, without=["a", "c"]), split, MODALITIES)
    (found,) = some.run(source)
    medians = []
    for images, texts in everyone._pools:
        asking = [not relations[image][[0, 2]].any() for image in images]
        assert 0 < sum(asking) < 15
        ranks = pool_ranks(
            source, split, split.image_ids[images], split.caption_ids[texts[np.array(asking)]]
        )
        medians.append(np.median(ranks))
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))
    (of_all,) = everyone.run(source)
    assert of_all.label_hash != found.label_hash
    with pytest.raises(UserError, match=r"'d' in config.evals.x.without; known: \['a', 'b', 'c'\]"):
        make_evaluator("x", options_of(**section, without=["d"]), split, MODALITIES)


def test_pools_are_reranked_by_whole_rows():
    split = make_split(records=30)
    source = make_source(split)
    generator = np.random.default_rng(9)
    parts = [generator.normal(size=(30, 2)).astype(np.float32) for _ in range(2)]
    reranker = {"name": "selective_refinement", "strength": 5.0, "gap": 2.0}
    section = {"type": "pools", "size": 12, "repeats": 3, "reranker": reranker, "task": "topics"}
    evaluator = make_evaluator("x", options_of(**section), split, MODALITIES)
    with pytest.raises(UserError, match="no predictions of task 'topics'"):
        evaluator.run(source)
    source = dataclasses.replace(source, predictions={"topics": Predictions(*parts)})
    (found,) = evaluator.run(source)
    assert "Reranked by selective_refinement (strength 5.0, gap 2.0)." in found.definition
    medians = []
    for images, texts in evaluator._pools:
        ranks = []
        for own, text in zip(images, texts, strict=True):
            caption = list(source.caption_ids).index(split.caption_ids[text])
            row = {}
            for image in images:
                at = list(source.image_ids).index(split.image_ids[image])
                p = 1 / (1 + np.exp(-(parts[0][at] + parts[1][caption])))
                score = cosine(source.images[at], source.captions[caption])
                row[image] = score * np.exp(5.0 * abs(p - 0.5)).sum()
            ranks.append(1 + sum(x > row[own] for x in row.values()))
        medians.append(np.median(ranks))
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))
