import math

from xmodal.train.sections import BestCheckpointConfig

R10, R5, R1 = "own/mean_recall@10", "own/mean/recall@5", "own/mean/recall@1"


def checkpoint(r10, r5=100.0, r1=100.0, **others):
    return {R10: r10, R5: r5, R1: r1} | others


def best_of(best_checkpoint, *checkpoints):
    return max(range(len(checkpoints)), key=lambda at: (best_checkpoint.rank(checkpoints[at]), at))


def test_a_saturated_metric_leaves_the_choice_to_the_next_one():
    best_checkpoint = BestCheckpointConfig(R10)
    rows = [checkpoint(100.0, 70.0, 50.0), checkpoint(100.0, 90.0, 30.0), checkpoint(100.0, 80.0)]
    assert best_of(best_checkpoint, *rows) == 1
    # Even R@1 is equal: the ranks of one direction differ.
    rows = [checkpoint(100.0) | {"own/i2t/median_rank": rank} for rank in (3.0, 1.0, 2.0)]
    assert best_of(best_checkpoint, *rows) == 1
    assert best_of(best_checkpoint, *[checkpoint(100.0)] * 3) == 2


def test_the_metric_alone_decides_where_it_differs():
    best_checkpoint = BestCheckpointConfig(R10)
    rows = [checkpoint(99.0, 90.0), checkpoint(99.5, 10.0), checkpoint(98.0, 95.0)]
    assert best_of(best_checkpoint, *rows) == 1
    last = BestCheckpointConfig(R10, "last")
    assert best_of(last, *rows) == 2
    lowest = BestCheckpointConfig("own/i2t/median_rank", "min")
    rows = [{"own/i2t/median_rank": 1.0, "own/i2t/recall@1": r1} for r1 in (60.0, 70.0, 65.0)]
    assert best_of(lowest, *rows) == 1


def test_an_undefined_metric_leaves_the_choice_to_the_next_one():
    best_checkpoint = BestCheckpointConfig("sts/all/pearson")
    rows = [{"sts/all/pearson": math.nan, "sts/all/spearman": x} for x in (1.0, 5.0, math.nan)]
    assert best_of(best_checkpoint, *rows) == 1
    assert best_checkpoint.rank(rows[2]) == ()
    assert best_checkpoint.rank({"sts/all/spearman": 5.0}) == ()  # Another metric was asked for.
