"""Random pools against plain loops."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from configs import cmcm_cite, cmcm_clue
from data_prep.cite import cite_dataset_builder
from data_prep.clue.clue_dataset_builder import Builder
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


@pytest.mark.parametrize(
    ("only_with", "without"), [("", "ac"), ("b", ""), ("ab", ""), ("bc", "a"), ("c", "c")]
)
def test_captions_are_queries_by_their_relations(only_with, without):
    relations = np.random.default_rng(5).integers(0, 2, (41, 3))
    names = {"relations": ["a", "b", "c"]}
    split = make_split(records=41, labels={"relations": relations}, label_names=names)
    source = make_source(split)
    section = {"type": "pools", "size": 30, "repeats": 3}
    chosen = section | {"only_with": [*only_with], "without": [*without]}
    if only_with == without:
        with pytest.raises(UserError, match=r"x has no queries: .* only_with=\('c',\) and none of"):
            make_evaluator("x", options_of(**chosen), split, MODALITIES)
        return
    everyone = make_evaluator("x", options_of(**section), split, MODALITIES)
    (found,) = make_evaluator("x", options_of(**chosen), split, MODALITIES).run(source)
    medians = []
    for images, texts in everyone._pools:
        held = [{name for name, has in zip("abc", relations[image], strict=True) if has}
                for image in images]  # fmt: skip
        asking = [not each & {*without} and bool(not only_with or each & {*only_with})
                  for each in held]  # fmt: skip
        assert 0 < sum(asking) < 30
        captions = split.caption_ids[texts[np.array(asking)]]
        medians.append(np.median(pool_ranks(source, split, split.image_ids[images], captions)))
    assert found.metrics["t2i/median_rank"] == pytest.approx(np.mean(medians))
    (of_all,) = everyone.run(source)
    assert of_all.label_hash != found.label_hash
    for option in ("only_with", "without"):
        with pytest.raises(UserError, match=rf"'d' in config.evals.x.{option}; known: \['a', 'b',"):
            make_evaluator("x", options_of(**section, **{option: ["d"]}), split, MODALITIES)


def test_pools_without_a_query_are_dropped():
    labels, names = {"relations": np.eye(41, 1, dtype=int)}, {"relations": ["a"]}
    split = make_split(records=41, labels=labels, label_names=names)
    section = options_of(type="pools", size=10, repeats=8, only_with=["a"])
    evaluator = make_evaluator("x", section, split, MODALITIES)
    assert 0 < len(evaluator._pools) < 8
    assert all(0 in images for images, _ in evaluator._pools)
    (found,) = evaluator.run(make_source(split))
    assert f"in {len(evaluator._pools)} random pools of 10 pairs" in found.definition
    assert "Queries: the 1 on average with any of a." in found.definition
    assert np.isfinite(found.metrics["t2i/recall@1"])


def test_queries_by_relation_of_the_released_clue(real_data, tmp_path):
    builder = Builder(config="labels", data_dir=tmp_path)
    pairs = dict(builder._splits(real_data / "clue")["test"])
    labels = {"relations": np.stack([pair["relations"] for pair in pairs.values()])}
    names = builder.info.metadata
    split = make_split(records=1512, labels=labels, label_names={"relations": names["relations"]})
    found = {}
    for section in cmcm_clue.get_config().evals.to_dict().values():
        if name := section.get("only_with"):
            options = options_of(**section | {"size": 1512})
            definition = make_evaluator("x", options, split, MODALITIES)._definition
            found[name] = int(definition.split("the ")[1].split()[0])
    assert found == {
        ("Visible",): 1003, ("Subjective",): 94, ("Action",): 236, ("Story",): 374,
        ("Meta",): 582, ("Irrelevant",): 144,
    }  # fmt: skip


def test_relations_of_cite_have_the_names_of_the_dataset():
    sections = cmcm_cite.get_config().evals.to_dict().values()
    names = {each for section in sections for each in section.get("only_with", ())}
    assert names == {*cite_dataset_builder.Builder.RELATIONS}


@pytest.mark.parametrize("reranked", [False, True])
def test_gaps_of_the_best_scores_and_ranks(reranked):
    split = make_split(records=30)
    source = make_source(split, predictions={"topics": Predictions(np.ones((30, 1)), None)})
    # Equal factors for all images of a caption change no rank, and no gap before them.
    reranker = {"name": "selective_refinement", "strength": 5.0, "gap": 2.0}
    given = {"reranker": reranker, "task": "topics"} if reranked else {}
    section = options_of(type="pools", size=12, repeats=3, **given)
    evaluator = make_evaluator("x", section, split, MODALITIES)
    gaps, ranks = evaluator.find_gaps(source)
    expected = []
    for images, texts in evaluator._pools:
        ids = split.image_ids[images], split.caption_ids[texts]
        for caption, rank in zip(ids[1], pool_ranks(source, split, *ids), strict=True):
            query = vector_of(source, "text", caption)
            *_, second, best = sorted(cosine(query, vector_of(source, "image", x)) for x in ids[0])
            expected.append((best - second, rank))
    np.testing.assert_allclose(gaps, [gap for gap, _ in expected], atol=1e-6)
    np.testing.assert_array_equal(ranks, [rank for _, rank in expected])


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
