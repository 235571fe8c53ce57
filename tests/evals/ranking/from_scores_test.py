"""Several tasks from one pass against rankings read query by query."""

import numpy as np
import pytest

from xmodal.evals.boards.ragged import Ragged
from xmodal.evals.boards.relation import Relation
from xmodal.evals.boards.types import RetrievalTask
from xmodal.evals.ranking import from_scores
from xmodal.evals.ranking.products import SavedScores

RECALLS = ("recall@1", "recall@5", "recall@10", "median_rank")


def few_values(generator, shape):
    return generator.integers(-3, 4, shape).astype(np.float32)


def ragged(*rows):
    pairs = [(i, item) for i, row in enumerate(rows) for item in row]
    return Ragged.from_pairs(*np.array(pairs).T, len(rows))


def random_positives(generator, queries, items):
    rows = np.repeat(np.arange(queries), generator.integers(0, 5, queries))
    return Ragged.from_pairs(rows, generator.integers(0, items, len(rows)), queries)


def slow_values(matrix, task, *, exclude_self=False):
    """Rank, mAP@R and R-Precision of every query that is asked, from its sorted row."""
    found = {}
    for i in np.flatnonzero(from_scores.has_positives(task)):
        order = [j for j in np.argsort(-matrix[i], kind="stable") if not (exclude_self and i == j)]
        if task.folds is not None:
            order = [j for j in order if task.folds[0][i] == task.folds[1][j]]
        precisions = []
        for relation in from_scores.relations_of(task):
            hits = [bool(relation.contains(i, j)) for j in order]
            r = sum(hits) + (0 if task.unreachable is None else task.unreachable[i])
            r = r if task.cap is None else min(r, task.cap)
            precisions.append(sum(hits[:r]) / r)
        first = hits.index(True) if any(hits) else matrix.shape[1]
        average = sum(sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits[:r]) if hit) / r
        found[i] = first, 100 * average, 100 * np.mean(precisions)
    return found


def assert_equals_slow(found, matrix, task, **options):
    expected = slow_values(matrix, task, **options)
    assert expected
    assert not found.missing
    for i, (rank, average, precision) in expected.items():
        if found.rank is not None:
            assert found.rank[i] == rank
        for metric, value in found.values.items():
            wanted = average if metric == "map@r" else precision
            np.testing.assert_allclose(value[i], wanted, rtol=1e-13, err_msg=metric)


def test_all_tasks_of_both_directions_in_one_pass():
    generator = np.random.default_rng(0)
    matrix = few_values(generator, (75, 150))
    lists = ("map@r", "r_precision", "recall@1")
    forward = [
        RetrievalTask(random_positives(generator, 75, 150), RECALLS),
        RetrievalTask(random_positives(generator, 75, 150), lists),
        RetrievalTask(random_positives(generator, 75, 150), ("r_precision",), cap=3),
    ]
    unreachable = generator.integers(0, 3, 150).astype(np.int32)
    backward = [
        RetrievalTask(random_positives(generator, 150, 75), lists, unreachable),
        RetrievalTask(random_positives(generator, 150, 75), RECALLS),
    ]
    found = from_scores.answer_tasks(SavedScores(matrix, block_size=64), forward, backward)
    for tasks, answers, scores in zip((forward, backward), found, (matrix, matrix.T), strict=True):
        assert len(answers) == len(tasks)
        for task, answer in zip(tasks, answers, strict=True):
            assert (answer.rank is None) == (task.metrics == ("r_precision",))
            listed = {"map@r", "r_precision"} & set(task.metrics)
            assert set(answer.values) == listed  # recalls come from the ranks
            assert_equals_slow(answer, scores, task)


def test_within_one_gallery():
    generator = np.random.default_rng(1)
    items = generator.integers(-2, 3, (130, 3)).astype(np.float32)
    matrix = items @ items.T
    positives = random_positives(generator, 130, 130)
    rows = np.repeat(np.arange(130), positives.lengths)
    other = rows != positives.values
    positives = Ragged.from_pairs(rows[other], positives.values[other], 130)
    task = RetrievalTask(positives, ("map@r", "recall@5"))
    (found,), nothing = from_scores.answer_tasks(
        SavedScores(matrix, block_size=64), [task], exclude_self=True
    )
    assert nothing == []
    assert_equals_slow(found, matrix, task, exclude_self=True)


def test_no_task_reads_no_score():
    assert from_scores.answer_tasks(None, []) == ([], [])


def test_a_query_whose_positives_are_all_out_of_reach():
    matrix = np.array([[3, 2, 1], [1, 2, 3], [0, 0, 0]], np.float32)
    task = RetrievalTask(ragged([1], [], []), ("recall@1", "map@r"), np.array([0, 2, 0], np.int32))
    (found,), _ = from_scores.answer_tasks(SavedScores(matrix), [task])
    np.testing.assert_array_equal(from_scores.has_positives(task), [True, True, False])
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
    task = RetrievalTask(
        relations,
        ("pmrp",),
        cap=cap,
        folds=tuple(fold.astype(np.int32) for fold in folds) if folded else None,
    )
    turned = tuple(
        Relation(each.gallery_group, each.query_group, each.related.T) for each in relations
    )
    backward = RetrievalTask(turned, ("pmrp",), cap=cap)
    (found,), (back,) = from_scores.answer_tasks(
        SavedScores(matrix, block_size=64), [task], [backward]
    )
    assert found.rank is None
    assert not found.tied.any()
    assert_equals_slow(found, matrix, task)
    assert_equals_slow(back, matrix.T, backward)


def test_lists_that_would_be_too_long(monkeypatch):
    monkeypatch.setattr(from_scores, "_LONGEST_LIST", 2)
    task = RetrievalTask(ragged([0, 1, 2]), ("map@r",))
    with pytest.raises(ValueError, match="map@r needs lists"):
        from_scores.answer_tasks(SavedScores(np.zeros((1, 4), np.float32)), [task])
