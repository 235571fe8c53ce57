"""Inspecting saved embeddings, against sorted lists of all scores."""

import numpy as np
import pytest

import xmodal
from configs import quickstart
from tests.saved_run import evaluate_file
from xmodal import data
from xmodal.apps.analysis.ratings import rating_plots
from xmodal.evals import Embeddings, save_embeddings


@pytest.fixture(scope="module")
def config(few_shapes):
    config = quickstart.get_config()
    config.data.data_dir = few_shapes
    config.evals.shapes.bootstrap_samples = 20
    config.evals.pools = {"type": "pools", "size": 10}
    return config


@pytest.fixture(scope="module")
def split(config):
    return data.eval_split(config.data.to_dict(), split="test")


@pytest.fixture(scope="module")
def vectors(split):
    generator = np.random.default_rng(0)
    images = generator.normal(size=(len(split.image_ids), 5)).astype(np.float32)
    captions = images[split.caption_rows] + generator.normal(size=(len(split.caption_ids), 5))
    return images, np.float32(captions)


@pytest.fixture(scope="module")
def path(split, vectors, tmp_path_factory):
    """A file of embeddings, in the reverse order of the split."""
    both = zip((split.image_ids, split.caption_ids), vectors, strict=True)
    arrays = [each[::-1] for pair in both for each in pair]
    path = str(tmp_path_factory.mktemp("saved") / "model.npz")
    save_embeddings(path, Embeddings("here", *arrays, "dot"))
    return path


@pytest.fixture(scope="module")
def inspection(path, config):
    return xmodal.inspect(path, config=config)


def test_numbers_are_those_of_the_command(inspection, path, config):
    (evaluation,) = evaluate_file(path, config, names=["shapes"])
    assert inspection.evaluation.tagged == evaluation.tagged
    assert inspection.directions == ["i2t", "t2i", "t2t", "i2i"]
    assert any("Worst rank" in group.title for group in inspection.evaluation.page.groups)


@pytest.mark.parametrize("direction", ["i2t", "t2i", "t2t", "i2i"])
def test_neighbors_are_those_of_a_sort(direction, inspection, split, vectors):
    sides = {"i": (split.image_ids, vectors[0]), "t": (split.caption_ids, vectors[1])}
    (ids, queries), (_, items) = sides[direction[0]], sides[direction[2]]
    result = inspection.evaluation.benchmarks[-1].directions[direction]
    chosen = [int(each) for each in result.query_ids[[3, 1]]]
    page = inspection.neighbors(direction, chosen)
    (group,) = page.groups
    assert ": shapes, " in group.title
    for query, section in zip(chosen, group.sections, strict=True):
        (row,) = np.flatnonzero(ids == query)
        scores = items @ queries[row]
        if direction[0] == direction[2]:
            scores[row] = -np.inf
        best = np.sort(scores)[::-1][:5]
        shown = [float(item.notes[1]) for item in section.rows[0].items]
        np.testing.assert_allclose(shown, best, atol=1e-4)
        rank = int(section.title.split("rank ")[1].split()[0])
        assert rank == 1 + result.rank[list(result.query_ids).index(query)]
    assert len(inspection.neighbors(direction, 4).groups[0].sections) == 4


def test_similarities_beside_ratings(inspection, split, vectors, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        rating_plots, "draw_similarities", lambda rated, *, title: seen.update(rated) or b""
    )
    inspection.draw_ratings()
    assert list(seen) == inspection.ratings == ["shapes/sts", "shapes/sis", "shapes/sits"]
    rows = split.ratings["sits"]
    ratings, similarities = seen["shapes/sits"]
    np.testing.assert_array_equal(ratings, rows["scores"])
    at = [list(split.caption_ids).index(each) for each in rows["left_ids"]]
    image = [list(split.image_ids).index(each) for each in rows["right_ids"]]
    expected = np.sum(vectors[1][at] * vectors[0][image], axis=1)
    np.testing.assert_allclose(similarities, expected, atol=1e-4)
