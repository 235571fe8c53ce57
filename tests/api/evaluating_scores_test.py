"""Scores and ranked lists of another system, evaluated on a prepared dataset."""

import numpy as np
import pytest

import xmodal
from xmodal import data
from xmodal.core.errors import UserError

SHAPES = "crisscrossed_shapes"
DIRECTIONS = ("/i2t/", "/t2i/")


@pytest.fixture(scope="module")
def embeddings(few_shapes):
    """Arrays of `--embeddings`, in another order than that of the dataset."""
    section = {"dataset": SHAPES, "config": "images", "data_dir": few_shapes, "image": None}
    split = data.eval_split(section | {"text": {}}, split="test")
    generator = np.random.default_rng(0)
    ids = {"image": split.image_ids[::-1], "caption": split.caption_ids[::-1]}
    arrays = {f"{kind}_ids": np.asarray(each) for kind, each in ids.items()}
    for kind, each in ids.items():
        arrays[f"{kind}_embeddings"] = generator.normal(size=(len(each), 3)).astype(np.float32)
    return arrays


@pytest.fixture(scope="module")
def scores(embeddings):
    ids = {name: embeddings[name] for name in ("image_ids", "caption_ids")}
    return {"scores": embeddings["image_embeddings"] @ embeddings["caption_embeddings"].T, **ids}


def lists(scores):
    found, matrix = {}, scores["scores"]
    for direction, rows, kinds in (
        ("i2t", matrix, ("image", "caption")),
        ("t2i", matrix.T, ("caption", "image")),
    ):
        queries, items = (scores[f"{kind}_ids"] for kind in kinds)
        order = items[np.argsort(-rows, axis=1)].tolist()
        found[direction] = dict(zip(queries.tolist(), order, strict=True))
    return found


def evaluate(few_shapes, **given):
    return xmodal.evaluate(dataset=SHAPES, data_dir=few_shapes, **given)


def between(metrics):
    """Numbers of images and captions, without those that depend on captions among themselves."""
    kept = (tag for tag in metrics if any(each in tag for each in DIRECTIONS))
    return {tag: metrics[tag] for tag in kept if "recall" in tag or "median_rank" in tag}


def test_a_dataset_ranks_files_of_other_systems_as_embeddings(
    few_shapes, embeddings, scores, tmp_path
):
    expected = between(evaluate(few_shapes, embeddings=embeddings, similarity="dot").metrics)
    assert len(expected) > 20
    ids = {name: scores[name] for name in ("image_ids", "caption_ids")}
    whole = evaluate(few_shapes, scores=scores)
    assert between(whole.metrics) == expected
    assert whole.page is not None
    np.save(tmp_path / "scores.npy", scores["scores"])
    bare = evaluate(few_shapes, scores=tmp_path / "scores.npy", ids=ids)
    assert between(bare.metrics) == expected
    ranked = evaluate(few_shapes, rankings=lists(scores))
    assert between(ranked.metrics) == expected
    assert ranked.page is None


def test_own_judgments_with_and_without_the_dataset(few_shapes, embeddings, scores, tmp_path):
    """The same numbers from both, and from scores and complete lists."""
    generator = np.random.default_rng(1)
    queries, items = embeddings["caption_ids"][:30], embeddings["image_ids"]
    rows = ["query,item,grade"]
    for query in queries:
        rows += [f"{query},{x},{n}" for n, x in enumerate(generator.permutation(items)[:4])]
    (tmp_path / "mine_t2i.csv").write_text("\n".join(rows))
    given = {"annotations": tmp_path / "mine_t2i.csv", "bootstrap_samples": 10}
    vectors = {"embeddings": embeddings, "similarity": "dot"}
    alone = xmodal.evaluate(**vectors, **given)
    assert [each.name for each in alone.results] == ["mine"]
    expected = {tag: x for tag, x in alone.metrics.items() if not tag.endswith(("low", "high"))}
    assert expected["mine/t2i/queries"] == 30
    assert {"mine/t2i/map", "mine/t2i/ndcg@10", "mine/t2i/r_precision"} <= set(expected)
    for source in (vectors, {"scores": scores}, {"rankings": lists(scores)}):
        found = evaluate(few_shapes, **source, **given).metrics
        known = {tag: found[tag] for tag in expected if not tag.endswith("tied_queries")}
        assert known == {tag: pytest.approx(expected[tag]) for tag in known}
    chosen = xmodal.evaluate(**vectors, **given, metrics=["ndcg@3", "ndcg@100"]).metrics
    assert {"mine/t2i/ndcg@3", "mine/t2i/ndcg@100"} <= set(chosen)
    assert "mine/t2i/map" not in chosen
    with pytest.raises(UserError, match="metrics names 'ndcg'; known: recall@K, ndcg@K"):
        xmodal.evaluate(**vectors, **given, metrics="ndcg")
