"""Ranks, ties and list metrics of all sources against sorted rows, query by query."""

import dataclasses

import jax
import numpy as np
import pytest
import sklearn.metrics

from xmodal.core.mesh import make_mesh
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.scores import score_rows, vector_scores
from xmodal.evals.scores.ranks import has_positives, rank_directions
from xmodal.evals.scores.score_rows import MatrixScores, top_items
from xmodal.evals.scores.sources import Embeddings
from xmodal.evals.scores.vector_scores import open_scores

RECALLS = ("recall@1", "recall@5", "recall@10", "median_rank")
LISTS = ("map@r", "r_precision", "recall@1")
BUDGETS = [0, 1 << 30]


def ragged(*rows):
    pairs = [(i, item) for i, row in enumerate(rows) for item in row]
    return Ragged.from_pairs(*np.array(pairs).T, len(rows))


def random_positives(generator, queries, items, within=False):
    """0 to 4 positives per query."""
    rows = np.repeat(np.arange(queries), generator.integers(0, 5, queries))
    values = generator.integers(0, items, len(rows))
    keep = (rows != values) | (not within)
    return Ragged.from_pairs(rows[keep], values[keep], queries)


def slow_values(matrix, direction, *, exclude_self=False):
    """Rank and its tie, mAP@R, R-Precision and its tie of every query, from its sorted row."""
    found = {}
    for i in np.flatnonzero(has_positives(direction)):
        order = [j for j in np.argsort(-matrix[i], kind="stable") if not (exclude_self and i == j)]
        if direction.folds is not None:
            order = [j for j in order if direction.folds[0][i] == direction.folds[1][j]]
        precisions, cut = [], False
        for relation in direction.relations:
            hits = [bool(relation.contains(i, j)) for j in order]
            r = sum(hits) + (0 if direction.unreachable is None else direction.unreachable[i])
            r = r if direction.cap is None else min(r, direction.cap)
            precisions.append(sum(hits[:r]) / max(r, 1))
            cut |= 0 < r < len(order) and matrix[i, order[r - 1]] == matrix[i, order[r]]
        first = hits.index(True) if any(hits) else matrix.shape[1]
        tied = any(hits) and any(
            matrix[i, j] == matrix[i, order[first]] and not hit
            for j, hit in zip(order, hits, strict=True)
        )
        average = sum(sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits[:r]) if hit)
        found[i] = first, tied, 100 * average / max(r, 1), 100 * np.mean(precisions), cut
    return found


def assert_equals_slow(found, matrix, direction, **options):
    expected = slow_values(matrix, direction, **options)
    assert expected
    for i, (rank, tied, average, precision, cut) in expected.items():
        if found.rank is not None:
            assert (found.rank[i], found.tied[i]) == (rank, tied), i
        else:
            assert found.tied[i] == cut, i
        for metric, value in found.values.items():
            wanted = average if metric == "map@r" else precision
            if metric.startswith("recall@"):
                wanted = 100 * (rank < int(metric.removeprefix("recall@")))
            np.testing.assert_allclose(value[i], wanted, rtol=1e-13, err_msg=metric)


def open_vectors(left, right, similarity="dot", devices=None, **options):
    source = Embeddings("x", np.arange(len(left)), left, np.arange(len(right)), right, similarity)
    mesh = None if devices is None else make_mesh(jax.devices()[:devices])
    return open_scores(source, mesh=mesh, **options)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("source", [None, 8, np.float16, np.float64])
def test_both_directions(source, budget, monkeypatch):
    """Odd sizes, with ties everywhere: of vectors on devices, and of matrices of any type."""
    monkeypatch.setattr(vector_scores, "_BLOCK", 64)
    monkeypatch.setattr(score_rows, "_CHUNK", 1 << 14)
    generator = np.random.default_rng(0)
    left, right = (generator.integers(-2, 3, (n, 3)).astype(np.float32) for n in (171, 233))
    matrix = left @ right.T
    if source in (None, 8):
        scores = open_vectors(left, right, devices=source)["image", "text"]
    else:
        scores = MatrixScores(matrix.astype(source))
    folds = generator.integers(0, 3, 171), generator.integers(0, 3, 233)
    in_fold = folds[0][:, None] == folds[1]
    rows, columns = np.nonzero(in_fold & (generator.random(in_fold.shape) < 0.02))
    unreachable = generator.integers(0, 3, 233).astype(np.int32)
    forward = [
        DirectionLabels(random_positives(generator, 171, 233), RECALLS),
        DirectionLabels(random_positives(generator, 171, 233), LISTS),
        DirectionLabels(random_positives(generator, 171, 233), ("r_precision",), cap=3),
        DirectionLabels(Ragged.from_pairs(rows, columns, 171), RECALLS, folds=folds),
    ]
    backward = [
        DirectionLabels(random_positives(generator, 233, 171), LISTS, unreachable),
        DirectionLabels(Ragged.from_pairs(columns, rows, 233), RECALLS, folds=folds[::-1]),
    ]
    rated = generator.integers(0, 171, 90), generator.integers(0, 233, 90)
    found = rank_directions(scores, forward, backward, rated=[rated], budget=budget)
    np.testing.assert_array_equal(found[2][0], matrix[rated])
    for directions, answers, each in zip(
        (forward, backward), found[:2], (matrix, matrix.T), strict=True
    ):
        for direction, answer in zip(directions, answers, strict=True):
            assert (answer.rank is None) == (direction.metrics == ("r_precision",))
            assert set(answer.values) == set(direction.metrics) - {"median_rank"}
            assert_equals_slow(answer, each, direction)
    assert found[0][0].tied.sum() > 20  # The tie rule was really asked.


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("devices", [None, 8])
def test_within_one_gallery(devices, budget, monkeypatch):
    monkeypatch.setattr(vector_scores, "_BLOCK", 64)
    generator = np.random.default_rng(1)
    items = generator.integers(-2, 3, (301, 3)).astype(np.float32)
    direction = DirectionLabels(random_positives(generator, 301, 301, within=True), LISTS)
    scores = open_vectors(items[:9], items, devices=devices)["text", "text"]
    (found,), nothing, _ = rank_directions(scores, [direction], exclude_self=True, budget=budget)
    assert nothing == []
    assert_equals_slow(found, items @ items.T, direction, exclude_self=True)


@pytest.mark.parametrize(("size", "block"), [(300, 64), (1200, 1152)])
def test_half_of_the_products_serve_both_modalities(size, block, monkeypatch):
    monkeypatch.setattr(vector_scores, "_BLOCK", block)
    items = np.random.default_rng(0).normal(size=(size, 33)).astype(np.float32)
    scores, asked = open_vectors(items[:9], items)["text", "text"], []
    compute = vector_scores._score_tile
    monkeypatch.setattr(vector_scores, "_score_tile", lambda *of: asked.append(of) or compute(*of))
    matrix = np.empty((size, size), np.float32)
    for at, rows in scores.hold(1 << 30).blocks(np.arange(size)):
        matrix[at] = rows
    assert len(asked) == {64: 5 * 6 // 2, 1152: 3}[block]
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, items @ items.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("similarity", ["dot", "cosine", "euclidean", "max_cosine"])
def test_duplicates_tie_exactly_in_real_numbers(similarity, budget, monkeypatch):
    """Copies of a positive before it push it back, copies after it do not, wherever they are."""
    monkeypatch.setattr(vector_scores, "_BLOCK", 128)
    generator = np.random.default_rng(0)
    items = generator.standard_normal((301, 177), dtype=np.float32)
    items[[40, 200, 300]] = items[250]
    queries = items[250] + generator.standard_normal((45, 177), dtype=np.float32) * 0.01
    labels = DirectionLabels(Ragged.from_pairs(np.arange(45), np.full(45, 250), 45), RECALLS)
    back = DirectionLabels(Ragged.from_pairs(np.array([250]), np.array([7]), 301), RECALLS)
    scores = open_vectors(queries, items, similarity)["image", "text"]
    (found,), *_ = rank_directions(scores, [labels], [back], budget=budget)
    np.testing.assert_array_equal(found.rank, 2)  # Behind 40 and 200.
    assert found.tied.all()
    within = DirectionLabels(Ragged.from_pairs(np.array([40]), np.array([250]), 301), RECALLS)
    scores = open_vectors(queries, items, similarity)["text", "text"]
    (found,), *_ = rank_directions(scores, [within], exclude_self=True, budget=budget)
    assert (found.rank[40], found.tied[40]) == (1, True)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("cap", [None, 20])
def test_several_relations(cap, folded):
    """An R of hundreds, and items that match nothing."""
    generator = np.random.default_rng(2)
    matrix = generator.integers(-3, 4, (70, 140)).astype(np.float32)
    groups = [generator.integers(0, 5, size).astype(np.int32) for size in (70, 140)]
    near = np.eye(5, dtype=bool)
    far = near | (generator.random((5, 5)) < 0.5)
    for related in (near, far):
        related[2], related[:, 2] = False, False
    relations = Relation(*groups, near), Relation(*groups, far)
    folds = tuple((group == 2).astype(np.int32) for group in groups) if folded else None
    direction = DirectionLabels(relations, ("pmrp",), cap=cap, folds=folds)
    turned = tuple(Relation(*groups[::-1], each.related.T) for each in relations)
    backward = DirectionLabels(turned, ("pmrp",), cap=cap)
    (found,), (back,), _ = rank_directions(MatrixScores(matrix), [direction], [backward])
    assert found.rank is None
    assert 5 < found.tied.sum() < 70
    assert_equals_slow(found, matrix, direction)
    assert_equals_slow(back, matrix.T, backward)


@pytest.mark.parametrize("values", [1, 3, 10_000])
def test_the_best_items_equal_a_stable_sort(values):
    generator = np.random.default_rng(values)
    rows = generator.integers(-values, values + 1, (75, 201)).astype(np.float32)
    rows[(rows == 0) & (generator.random(rows.shape) < 0.5)] = -0.0
    for count in (1, 7, 20, 100, 300):
        expected = np.argsort(-rows, axis=1, kind="stable")[:, :count]
        np.testing.assert_array_equal(top_items(rows, count), expected)


@pytest.mark.parametrize(
    ("case", "similarity"),
    [("one direction", "cosine"), ("one point", "dot"), ("ordinary", "cosine")],
)
def test_ranks_that_rounding_decides_are_counted_and_float64_has_them(case, similarity):
    generator = np.random.default_rng(3)
    left, right = (generator.normal(size=(n, 17)) for n in (71, 133))
    if case == "one direction":
        left, right = left + 1e4, right + 1e4
    if case == "one point":
        left, right = (1e-7 * each + np.linspace(1, 2, 17) for each in (left, right))
    labels = DirectionLabels(random_positives(generator, 71, 133), RECALLS)
    of_items = DirectionLabels(random_positives(generator, 133, 71), RECALLS)
    scores = open_vectors(left, right, similarity)["image", "text"]
    for found in rank_directions(scores, [labels], [of_items])[:2]:
        assert (found[0].rounded > 0.1) == (case != "ordinary")
    scores = open_vectors(left, right, similarity, precision="float64")["image", "text"]
    (found,), *_ = rank_directions(scores, [labels])
    assert found.rounded == 0
    if similarity == "cosine":
        left, right = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (left, right))
    assert_equals_slow(dataclasses.replace(found, values={}), left @ right.T, labels)


def trec_eval(order, grades, cutoffs):
    """The metrics of a query by the program itself, from its list."""
    own = {"query": {str(item): int(grade) for item, grade in grades.items()}}
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names = {f"ndcg_cut.{','.join(map(str, cutoffs))}", "map", "Rprec"}
    listed = {"query": {str(item): -float(place) for place, item in enumerate(order)}}
    found = pytrec_eval.RelevanceEvaluator(own, names).evaluate(listed)["query"]
    ndcg = {f"ndcg@{k}": found[f"ndcg_cut_{k}"] for k in cutoffs}
    return ndcg | {"map": found["map"], "r_precision": found["Rprec"]}


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_graded_judgments_as_trec_eval_and_scikit_learn_have_them(graded, tied, monkeypatch):
    monkeypatch.setattr(score_rows, "_CHUNK", 1 << 10)
    generator, cutoffs = np.random.default_rng(3), (1, 5, 60, 100)
    positives = random_positives(generator, 40, 70)
    grades = generator.integers(1, 4 if graded else 2, len(positives.values)) / 1.0
    matrix = generator.normal(size=(40, 70))
    matrix = matrix.round() if tied else matrix
    metrics = (*(f"ndcg@{k}" for k in cutoffs), "map", "r_precision", "recall@5")
    direction = DirectionLabels(positives, metrics, grades=grades)
    # Only the metrics of short lists, too.
    others = DirectionLabels(positives, metrics[:1], grades=grades)
    (found, first), *_ = rank_directions(MatrixScores(matrix), [direction, others])
    asked = np.flatnonzero(has_positives(direction))
    for i in asked:
        own = slice(*positives.offsets[i : i + 2])
        judged = dict(zip(positives.values[own].tolist(), grades[own].tolist(), strict=True))
        order = np.argsort(-matrix[i], kind="stable").tolist()
        for metric, value in trec_eval(order, judged, cutoffs).items():
            assert found.values[metric][i] == pytest.approx(100 * value), metric
        if not tied:
            truth = np.array([judged.get(item, 0) for item in range(70)])
            for k in cutoffs:
                expected = sklearn.metrics.ndcg_score([truth], [matrix[i]], k=k)
                assert found.values[f"ndcg@{k}"][i] == pytest.approx(100 * expected)
            expected = sklearn.metrics.average_precision_score(truth > 0, matrix[i])
            assert found.values["map"][i] == pytest.approx(100 * expected)
    np.testing.assert_array_equal(first.values["ndcg@1"][asked], found.values["ndcg@1"][asked])
