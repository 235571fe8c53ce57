"""The diversity of models, against slow loops over their complete rankings."""

import itertools
import json
import types

import numpy as np
import pytest
from scipy import stats

from xmodal.apps.analysis.diversity import tau_of_lists, write_diversity
from xmodal.apps.model_files import read_source

SPLIT = types.SimpleNamespace(
    image_ids=np.random.default_rng(0).permutation(np.arange(10, 40)),
    caption_ids=np.arange(901, 991)[::-1],
)
TOP = 5


@pytest.fixture
def paths(tmp_path):
    """Embeddings of two models, the scores of one, and candidates, with items of other splits."""
    rng, found = np.random.default_rng(1), {}
    images, captions = rng.permutation([*SPLIT.image_ids, 98]), rng.permutation(SPLIT.caption_ids)
    ids = {"image_ids": images, "caption_ids": captions}
    for name in "ab":
        vectors = (rng.normal(size=(len(each), 6)).astype(np.float32) for each in ids.values())
        keys = ("image_embeddings", "caption_embeddings")
        found[name] = ids | dict(zip(keys, vectors, strict=True)) | {"similarity": "dot"}
    scores = rng.integers(9, size=(len(images), len(captions))).astype(np.float32)  # with ties
    found["c"] = ids | {"scores": scores}
    found["d"] = dict(ids)
    for name, queries, items in (("i2t", images, captions), ("t2i", captions, images)):
        listed = np.stack([rng.permutation(items)[:12] for _ in queries])
        found["d"] |= {
            f"{name}_candidates": listed,
            f"{name}_scores": rng.normal(size=listed.shape),
        }
    for name, arrays in found.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    return {name: str(tmp_path / f"{name}.npz") for name in found}


def slow_scores(path, direction):
    """Query -> item -> score, of the items that the model scores."""
    saved = np.load(path)
    images, captions = saved["image_ids"].tolist(), saved["caption_ids"].tolist()
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    gallery = (SPLIT.caption_ids if direction == "i2t" else SPLIT.image_ids).tolist()
    if "i2t_candidates" in saved:
        listed, scores = saved[f"{direction}_candidates"], saved[f"{direction}_scores"]
    else:
        vectors = [saved.get(f"{kind}_embeddings", np.eye(1)) for kind in ("image", "caption")]
        scores = saved["scores"] if "scores" in saved else vectors[0] @ vectors[1].T
        scores = scores if direction == "i2t" else scores.T
        listed = np.broadcast_to(items, scores.shape)
    rows = zip(queries, listed.tolist(), scores.tolist(), strict=True)
    found = {query: dict(zip(*row, strict=True)) for query, *row in rows}
    return {q: {item: of[item] for item in gallery if item in of} for q, of in found.items()}


def slow_tau(first, second):
    items = [*first, *(item for item in second if item not in first)]
    ranks = [[each.index(x) if x in each else 10**6 for x in items] for each in (first, second)]
    return stats.kendalltau(*ranks).statistic


def test_diversity_is_that_of_slow_loops(paths, tmp_path):
    models = {name: read_source(path, None) for name, path in paths.items()}
    text = write_diversity(models, SPLIT, str(tmp_path / "out"), TOP)
    found = json.loads((tmp_path / "out/diversity.json").read_text())
    assert found["models"] == [*"abcd"]
    for direction, queries in (("i2t", SPLIT.image_ids), ("t2i", SPLIT.caption_ids)):
        scores = {name: slow_scores(path, direction) for name, path in paths.items()}
        best = {
            name: {q: sorted(of[q], key=lambda item, row=of[q]: -row[item])[:TOP] for q in of}
            for name, of in scores.items()
        }
        asked = queries.tolist()
        for (i, one), (j, other) in itertools.product(enumerate(paths), repeat=2):
            taus = [slow_tau(best[one][q], best[other][q]) for q in asked]
            assert found[direction]["tau"][i][j] == pytest.approx(np.mean(taus), abs=1e-12)
            ranks = []
            for query in asked:
                row, first = scores[other][query], best[one][query][0]
                ranks.append(1 + sum(x > row.get(first, -np.inf) for x in row.values()))
            assert found[direction]["mean rank"][i][j] == pytest.approx(np.mean(ranks), abs=1e-9)
    assert (tmp_path / "out/diversity.md").read_text() == text
    assert text.count("\n| a |  1.00 |") == 4
    assert (tmp_path / "out/diversity.tex").read_text().count(r"\begin{table}") == 4
    assert (tmp_path / "out/diversity.png").read_bytes().startswith(b"\x89PNG")


def test_lists_without_a_common_item_have_the_least_tau():
    first = np.arange(25)[None]
    pairs = np.concatenate([first, first + 25, first[:, ::-1]]), np.repeat(first, 3, axis=0)
    assert tau_of_lists(*pairs) == pytest.approx([1, -50 / 74, -1])
    short = np.array([[3, 1, -1], [-1, -1, -1]]), np.array([[1, 7, 3], [1, 7, 3]])
    assert tau_of_lists(*short) == pytest.approx([slow_tau([3, 1], [1, 7, 3]), np.nan], nan_ok=True)
