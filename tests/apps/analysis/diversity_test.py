"""The diversity of models, against slow loops over their complete rankings."""

import itertools
import json
import types

import numpy as np
import pytest
from scipy import stats

from xmodal.apps.analysis.diversity import tau_of_lists, write_diversity
from xmodal.evals.scores.sources import Candidates, ScoreMatrix

SPLIT = types.SimpleNamespace(
    image_ids=np.random.default_rng(0).permutation(np.arange(10, 40)),
    caption_ids=np.arange(901, 991)[::-1],
)
TOP = 5
IMAGES = np.random.default_rng(1).permutation([*SPLIT.image_ids, 98])  # 98 is of another split.
CAPTIONS = np.random.default_rng(2).permutation(SPLIT.caption_ids)


def turned(table):
    return {"i2t": (IMAGES, CAPTIONS, table), "t2i": (CAPTIONS, IMAGES, table.T)}


def make_models():
    """Sources, and their scores by direction: a, b and c (with ties) of all pairs, d of some."""
    rng, shape = np.random.default_rng(3), (len(IMAGES), len(CAPTIONS))
    tables = {name: rng.normal(size=shape) for name in "abc"}
    tables["c"] = tables["c"].round()
    sources = {name: ScoreMatrix(name, IMAGES, CAPTIONS, table) for name, table in tables.items()}
    scores, found = {name: turned(table) for name, table in tables.items()}, {}
    scores["d"] = turned(np.zeros(shape))
    for direction, (queries, items, _) in scores["d"].items():
        listed = np.argsort(rng.random((len(queries), len(items))))[:, :12]
        values, table = rng.normal(size=listed.shape), np.full((len(queries), len(items)), -np.inf)
        np.put_along_axis(table, listed, values, axis=1)
        scores["d"][direction] = queries, items, table
        found[direction] = items[listed], values
    return sources | {"d": Candidates("d", IMAGES, CAPTIONS, found, "")}, scores


def slow_rows(queries, items, table):
    """Query -> item -> score, of the items that the model scores, in the order of the split."""
    order = SPLIT.caption_ids if len(items) == len(CAPTIONS) else SPLIT.image_ids
    rows = zip(queries.tolist(), table.tolist(), strict=True)
    found = {query: dict(zip(items.tolist(), row, strict=True)) for query, row in rows}
    return {q: {x: of[x] for x in order.tolist() if of[x] > -np.inf} for q, of in found.items()}


def slow_tau(first, second):
    items = [*first, *(item for item in second if item not in first)]
    ranks = [[each.index(x) if x in each else 10**6 for x in items] for each in (first, second)]
    return stats.kendalltau(*ranks).statistic


def test_diversity_is_that_of_slow_loops(tmp_path):
    models, tables = make_models()
    text = write_diversity(models, SPLIT, str(tmp_path / "out"), TOP)
    found = json.loads((tmp_path / "out/diversity.json").read_text())
    assert found["models"] == [*"abcd"]
    for direction, queries in (("i2t", SPLIT.image_ids), ("t2i", SPLIT.caption_ids)):
        scores = {name: slow_rows(*each[direction]) for name, each in tables.items()}
        best = {
            name: {q: sorted(of[q], key=lambda item, row=of[q]: -row[item])[:TOP] for q in of}
            for name, of in scores.items()
        }
        asked = queries.tolist()
        for (i, one), (j, other) in itertools.product(enumerate(models), repeat=2):
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
