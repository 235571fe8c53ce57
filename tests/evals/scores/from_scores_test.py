"""Several directions from one pass against rankings read query by query."""

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.scores import from_scores
from xmodal.evals.scores.from_scores import count_hits
from xmodal.evals.scores.products import Gallery, Products
from xmodal.evals.scores.saved_scores import SavedScores
from xmodal.similarity import make_similarity

RECALLS = ("recall@1", "recall@5", "recall@10", "median_rank")


def few_values(generator, shape):
    return generator.integers(-3, 4, shape).astype(np.float32)


def ragged(*rows):
    pairs = [(i, item) for i, row in enumerate(rows) for item in row]
    return Ragged.from_pairs(*np.array(pairs).T, len(rows))


def random_positives(generator, queries, items):
    rows = np.repeat(np.arange(queries), generator.integers(0, 5, queries))
    return Ragged.from_pairs(rows, generator.integers(0, items, len(rows)), queries)


def slow_values(matrix, direction, *, exclude_self=False):
    """Rank, mAP@R, R-Precision and its tie for every query that is asked, from its sorted row."""
    found = {}
    for i in np.flatnonzero(from_scores.has_positives(direction)):
        order = [j for j in np.argsort(-matrix[i], kind="stable") if not (exclude_self and i == j)]
        if direction.folds is not None:
            order = [j for j in order if direction.folds[0][i] == direction.folds[1][j]]
        precisions, tied = [], False
        for relation in direction.relations:
            hits = [bool(relation.contains(i, j)) for j in order]
            r = sum(hits) + (0 if direction.unreachable is None else direction.unreachable[i])
            r = r if direction.cap is None else min(r, direction.cap)
            precisions.append(sum(hits[:r]) / r)
            tied |= r < len(order) and matrix[i, order[r - 1]] == matrix[i, order[r]]
        first = hits.index(True) if any(hits) else matrix.shape[1]
        average = sum(sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits[:r]) if hit) / r
        found[i] = first, 100 * average, 100 * np.mean(precisions), tied
    return found


def assert_equals_slow(found, matrix, direction, **options):
    expected = slow_values(matrix, direction, **options)
    assert expected
    assert not found.missing
    for i, (rank, average, precision, tied) in expected.items():
        if found.rank is not None:
            assert found.rank[i] == rank
        else:
            assert found.tied[i] == tied
        for metric, value in found.values.items():
            wanted = average if metric == "map@r" else precision
            np.testing.assert_allclose(value[i], wanted, rtol=1e-13, err_msg=metric)


def test_lists_have_one_zero():
    """A product of one dimension may be -0.0, which equals 0.0."""
    generator = np.random.default_rng(0)
    left, right = few_values(generator, (75, 1)), few_values(generator, (150, 1))
    prepare, score = make_similarity({"name": "dot"}).scorer()
    scores = Products(Gallery(left, prepare), Gallery(right, prepare), score)
    direction = DirectionLabels(random_positives(generator, 75, 150), ("map@r", "r_precision"))
    (found,), _ = from_scores.rank_directions(scores, [direction])
    assert_equals_slow(found, left @ right.T, direction)


def test_all_directions_of_both_directions_in_one_pass():
    generator = np.random.default_rng(0)
    matrix = few_values(generator, (75, 150))
    lists = ("map@r", "r_precision", "recall@1")
    forward = [
        DirectionLabels(random_positives(generator, 75, 150), RECALLS),
        DirectionLabels(random_positives(generator, 75, 150), lists),
        DirectionLabels(random_positives(generator, 75, 150), ("r_precision",), cap=3),
    ]
    unreachable = generator.integers(0, 3, 150).astype(np.int32)
    backward = [
        DirectionLabels(random_positives(generator, 150, 75), lists, unreachable),
        DirectionLabels(random_positives(generator, 150, 75), RECALLS),
    ]
    found = from_scores.rank_directions(SavedScores(matrix, block_size=64), forward, backward)
    for directions, answers, scores in zip(
        (forward, backward), found, (matrix, matrix.T), strict=True
    ):
        assert len(answers) == len(directions)
        for direction, answer in zip(directions, answers, strict=True):
            assert (answer.rank is None) == (direction.metrics == ("r_precision",))
            listed = {"map@r", "r_precision"} & set(direction.metrics)
            assert set(answer.values) == listed  # recalls come from the ranks
            assert_equals_slow(answer, scores, direction)


def test_within_one_gallery():
    generator = np.random.default_rng(1)
    items = generator.integers(-2, 3, (130, 3)).astype(np.float32)
    matrix = items @ items.T
    positives = random_positives(generator, 130, 130)
    rows = np.repeat(np.arange(130), positives.lengths)
    other = rows != positives.values
    positives = Ragged.from_pairs(rows[other], positives.values[other], 130)
    direction = DirectionLabels(positives, ("map@r", "recall@5"))
    (found,), nothing = from_scores.rank_directions(
        SavedScores(matrix, block_size=64), [direction], exclude_self=True
    )
    assert nothing == []
    assert_equals_slow(found, matrix, direction, exclude_self=True)


def test_no_direction_reads_no_score():
    assert from_scores.rank_directions(None, []) == ([], [])


def test_a_query_whose_positives_are_all_out_of_reach():
    matrix = np.array([[3, 2, 1], [1, 2, 3], [0, 0, 0]], np.float32)
    direction = DirectionLabels(
        ragged([1], [], []), ("recall@1", "map@r"), np.array([0, 2, 0], np.int32)
    )
    (found,), _ = from_scores.rank_directions(SavedScores(matrix), [direction])
    np.testing.assert_array_equal(from_scores.has_positives(direction), [True, True, False])
    np.testing.assert_array_equal(found.rank[:2], [1, 3])  # behind the whole gallery
    np.testing.assert_array_equal(found.values["map@r"][:2], [0, 0])


def make_relations(generator, queries, items):
    groups = [generator.integers(0, 5, size).astype(np.int32) for size in (queries, items)]
    near = np.eye(5, dtype=bool)
    near[2, 2] = False  # this group matches nothing
    far = near | (generator.random((5, 5)) < 0.5)
    far[2], far[:, 2] = False, False
    return Relation(*groups, near), Relation(*groups, far)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("cap", [None, 20])
@pytest.mark.parametrize("longest", [0, 256])
def test_several_relations(monkeypatch, longest, cap, folded):
    """From lists and by counting, and without the items that match nothing."""
    monkeypatch.setattr(from_scores, "_LONGEST_LIST", longest)
    generator = np.random.default_rng(2)
    matrix = few_values(generator, (70, 140))
    relations = make_relations(generator, 70, 140)
    folds = relations[0].query_group == 2, relations[0].gallery_group == 2
    direction = DirectionLabels(
        relations,
        ("pmrp",),
        cap=cap,
        folds=tuple(fold.astype(np.int32) for fold in folds) if folded else None,
    )
    turned = tuple(
        Relation(each.gallery_group, each.query_group, each.related.T) for each in relations
    )
    backward = DirectionLabels(turned, ("pmrp",), cap=cap)
    (found,), (back,) = from_scores.rank_directions(
        SavedScores(matrix, block_size=64), [direction], [backward]
    )
    assert found.rank is None
    assert 5 < found.tied.sum() < 70
    assert_equals_slow(found, matrix, direction)
    assert_equals_slow(back, matrix.T, backward)


def test_lists_that_would_be_too_long(monkeypatch):
    monkeypatch.setattr(from_scores, "_LONGEST_LIST", 2)
    direction = DirectionLabels(ragged([0, 1, 2]), ("map@r",))
    with pytest.raises(ValueError, match="map@r needs lists"):
        from_scores.rank_directions(SavedScores(np.zeros((1, 4), np.float32)), [direction])


def random_relation(generator, queries, items, groups=6):
    return Relation(
        generator.integers(0, groups, queries).astype(np.int32),
        generator.integers(0, groups + 1, items).astype(np.int32),
        generator.random((groups, groups + 1)) < 0.4,
    )


def slow_counts(matrix, relation, r):
    """Positives among the first items; whether the next one scores like the last of them."""
    counts, tied = [], []
    for i, depth in enumerate(r):
        order = np.argsort(-matrix[i], kind="stable")
        counts.append(sum(bool(relation.contains(i, j)) for j in order[:depth]))
        cut = 0 < depth < len(order)
        tied.append(cut and matrix[i, order[depth - 1]] == matrix[i, order[depth]])
    return [counts], [tied]


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (65, 63), (130, 201)])
@pytest.mark.parametrize("values", [1, 2, 9])
def test_counted_hits_equal_a_stable_sort(shape, values):
    """Scores of few values, of both signs and with both zeros: nearly every R cuts a tie."""
    generator = np.random.default_rng(shape[1] + values)
    matrix = generator.integers(-values, values + 1, shape).astype(np.float32)
    matrix[(matrix == 0) & (generator.random(shape) < 0.5)] = -0.0
    relation = random_relation(generator, *shape)
    r = generator.integers(0, shape[1] + 1, shape[0])
    r[:2] = [shape[1], 0][: shape[0]]
    found = count_hits(SavedScores(matrix, block_size=64), [relation], [r])
    np.testing.assert_array_equal(found, slow_counts(matrix, relation, r))


def test_counted_hits_of_real_scores():
    """Magnitudes from below the smallest to the largest float, and copies among them."""
    generator = np.random.default_rng(0)
    shape = 70, 150
    matrix = generator.standard_normal(shape) * 10.0 ** generator.integers(-44, 38, shape)
    matrix = matrix.astype(np.float32)
    matrix[:, 100:] = matrix[:, generator.integers(0, 100, 50)]
    relation = random_relation(generator, *shape)
    r = generator.integers(1, 151, 70)
    found = count_hits(SavedScores(matrix, block_size=64), [relation], [r])
    subnormal = np.abs(matrix) < np.finfo(np.float32).tiny  # They keep their order.
    assert (matrix[subnormal] != 0).any()
    np.testing.assert_array_equal(found, slow_counts(matrix, relation, r))


def test_counted_hits_do_not_depend_on_the_tiles():
    generator = np.random.default_rng(1)
    left, right = (generator.standard_normal((n, 33), dtype=np.float32) for n in (150, 333))
    right[::3] = right[0]
    relation = random_relation(generator, 150, 333)
    r = generator.integers(1, 334, 150)
    prepare, score = make_similarity({"name": "dot"}).scorer()
    counts = [
        count_hits(
            Products(*(Gallery(x, prepare, block_size=size) for x in (left, right)), score),
            [relation],
            [r],
        )
        for size in (64, 128, 1024)
    ]
    assert counts[0][0].sum() > 0
    np.testing.assert_array_equal(counts[0], counts[1])
    np.testing.assert_array_equal(counts[0], counts[2])
