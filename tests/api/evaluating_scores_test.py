"""Scores, candidates and ranked lists of another system, evaluated on a prepared dataset."""

import json

import numpy as np
import pytest

import xmodal
from configs import base, quickstart
from tests.saved_run import evaluate_file
from xmodal import data

SHAPES = "crisscrossed_shapes"
DIRECTIONS = ("/i2t/", "/t2i/")
REFINED = {"name": "selective_refinement", "strength": 1.0, "gap": 0.1}


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


def candidates(scores, top):
    """The best of every query, as a reranker saves them."""
    matrix, found = scores["scores"], {}
    for direction, rows, items in (
        ("i2t", matrix, scores["caption_ids"]),
        ("t2i", matrix.T, scores["image_ids"]),
    ):
        order = np.argsort(-rows, axis=1)[:, :top]
        found[f"{direction}_candidates"] = items[order]
        found[f"{direction}_scores"] = np.take_along_axis(rows, order, axis=1)
    return found | {name: scores[name] for name in ("image_ids", "caption_ids")}


def lists(scores):
    found = candidates(scores, None)
    return {
        direction: {
            int(query): row.tolist()
            for query, row in zip(scores[ids], found[f"{direction}_candidates"], strict=True)
        }
        for direction, ids in (("i2t", "image_ids"), ("t2i", "caption_ids"))
    }


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
    assert whole.examples
    np.save(tmp_path / "scores.npy", scores["scores"])
    bare = evaluate(few_shapes, scores=tmp_path / "scores.npy", ids=ids)
    assert between(bare.metrics) == expected
    for given in ({"scores": candidates(scores, None)}, {"rankings": lists(scores)}):
        found = evaluate(few_shapes, **given)
        assert between(found.metrics) == expected
        assert found.page is None
    best = between(evaluate(few_shapes, scores=candidates(scores, 5)).metrics)
    assert best
    assert best.items() <= expected.items()
    assert not any("recall@10" in tag for tag in best)


def test_what_a_dataset_does_not_allow_is_named(few_shapes, scores):
    few = {**scores, "scores": scores["scores"][1:], "image_ids": scores["image_ids"][1:]}
    message = rf"<arrays> lacks 1 of the \d+ images of the split, .* id {scores['image_ids'][0]}:"
    with pytest.raises(xmodal.UserError, match=message):
        evaluate(few_shapes, scores=few)
    with pytest.raises(xmodal.UserError, match="examples=2 shows .*<arrays> has only some; set it"):
        evaluate(few_shapes, scores=candidates(scores, 2), examples=2)
    with pytest.raises(xmodal.UserError, match=r"\['boards'\] cannot be used with a dataset: rem"):
        evaluate(few_shapes, scores=scores, boards=["shapes"])


def test_evaluators_of_a_config_that_need_more_are_left_out(few_shapes, scores, tmp_path, caplog):
    config = quickstart.get_config("i2t")
    config.data.data_dir = few_shapes
    shapes = config.evals.shapes
    options = {"again": {"name": "cross_encoder"}, "refined": REFINED}
    for name, reranker in options.items():
        config.evals[name] = base.boards() | {"reranker": reranker}
    config.evals.uncertain = {"type": "ambiguity"}
    shapes.bootstrap_samples = 20
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(lists(scores)))
    (found,) = evaluate_file(str(path), config, kind="rankings")
    assert found.evaluator == "shapes"
    assert "Left out: config.evals.again needs a cross-encoder and" in caplog.text
    expected = evaluate(few_shapes, rankings=path)
    assert found.metrics["shapes/i2t/recall@5"] == expected.metrics["shapes/i2t/recall@5"]
    with pytest.raises(xmodal.UserError, match=r"evals.uncertain needs embeddings, which .*lists"):
        evaluate_file(str(path), config, kind="rankings", names=["uncertain"])
    np.savez(tmp_path / "scores.npz", **scores)
    file = str(tmp_path / "scores.npz")
    remedy = r"set --config\.evals\.NAME\.reranker=None\."
    with pytest.raises(xmodal.UserError, match=f"refined needs embeddings, which .*{remedy}"):
        evaluate_file(file, config, kind="scores", names=["refined"])
    config.evals.refined.reranker = None
    (found,) = evaluate_file(file, config, kind="scores", names=["refined"])
    assert found.evaluator == "refined"
    assert found.metrics["shapes/i2t/recall@5"] == expected.metrics["shapes/i2t/recall@5"]
