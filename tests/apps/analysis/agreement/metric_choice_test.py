"""The choice of metrics to compare, on tables of tags as evaluations write them."""

import math

import pytest

from xmodal.apps.analysis.agreement.metric_choice import choose_metrics, describe_left_out
from xmodal.core.errors import UserError
from xmodal.evals.reports.published import ECCV_TABLE_5_METRICS, eccv_table_4

RECALLS = ("recall@1", "recall@5", "recall@10")


def evaluated(board, directions=("i2t", "t2i", "t2t", "i2i"), ratings=()):
    """All tags of a board, as in `metrics.json`."""
    judging = [
        f"{board}/{direction}/{metric}"
        for direction in directions
        for metric in (*RECALLS, "median_rank")
    ]
    if "i2t" in directions:
        judging += [f"{board}/mean/{metric}" for metric in RECALLS]
    judging += [f"{board}/{direction}/spearman" for direction in ratings]
    counts = ("queries", "skipped_queries", "tied_queries", "gallery")
    behind = [f"{board}/{direction}/{count}" for direction in directions for count in counts]
    for direction in ratings:
        behind += [f"{board}/{direction}/{name}" for name in ("spearman_std", "pairs")]
    ends = [f"{tag}_{end}" for tag in judging for end in ("low", "high")]
    return dict.fromkeys([*judging, *ends, *behind, f"{board}/mean_recall@10"], 1.0)


CXC = evaluated("cxc", ratings=("sts", "sis", "sits"))


def test_small_tables_are_compared_whole_but_for_what_stands_behind_metrics():
    row = {
        "step": 400,
        "x/recall@1": 1,
        "x/recall@1_low": 0,
        "x/recall@1_high": 2,
        "x/queries": 7,
        "x/mean_recall@10": 4,
        "human": 3,
        "sts/spearman": 4,
        "sts/spearman_std": 1,
    }
    assert choose_metrics({"a": row, "b": row}) == ("x/recall@1", "human", "sts/spearman")


def test_large_tables_are_compared_by_the_metrics_of_the_paper():
    row = eccv_table_4()["CLIP ViT-L/14"] | {f"other/mean/recall@{k}": 1.0 for k in range(30)}
    *paper, other = choose_metrics({"a": row, "b": row})
    assert paper == [tag for tag in ECCV_TABLE_5_METRICS if tag in row]
    assert len(paper) == 7
    assert other == "other/mean/recall@1"  # contains every board


def test_one_board_is_compared_by_its_recalls():
    row = evaluated("own/own", directions=("i2t", "t2i", "t2t")) | {"own/own/rsum": 6.0}
    places = ("i2t", "t2i", "t2t", "mean")
    recalls = [f"own/own/{place}/recall@{k}" for place in places for k in (1, 5, 10)]
    assert "own/own/t2t/median_rank" in row
    assert sorted(choose_metrics({"a": row, "b": row})) == sorted(recalls)


def test_the_board_of_the_project_has_a_choice_of_its_own():
    assert len(CXC) > 80
    assert choose_metrics({"a": CXC, "b": CXC}) == (
        "cxc/t2t/recall@1",
        "cxc/i2i/recall@1",
        "cxc/mean/recall@1",
        "cxc/sts/spearman",
        "cxc/sis/spearman",
        "cxc/sits/spearman",
    )


def test_boards_of_the_paper_do_not_hide_the_others():
    models = dict.fromkeys("ab", CXC | evaluated("coco5k", directions=("i2t", "t2i", "t2t")))
    assert choose_metrics(models) == (
        "coco5k/mean/recall@1",
        "coco5k/mean/recall@5",
        "coco5k/mean/recall@10",
        *choose_metrics({"a": CXC, "b": CXC}),
    )


def test_boards_of_the_paper_without_its_metrics_have_others():
    models = dict.fromkeys("ab", CXC | evaluated("coco5k", directions=("t2t",)))
    assert choose_metrics(models)[-1] == "coco5k/t2t/recall@1"


def test_metrics_of_one_model_are_left_out_in_one_sentence():
    more = evaluated("coco5k") | {"human": 3}
    models = {"a": CXC, "b": CXC | more, "c": {"cxc/t2t/recall@1": 2}}
    assert choose_metrics(models) == choose_metrics({"a": CXC, "b": CXC})
    assert describe_left_out(models) == (
        "Left out, as fewer than two models have them: metrics of coco5k (19), human (1)."
    )
    assert describe_left_out({"a": CXC, "b": CXC | {"step": 3}}) == ""


def test_an_undefined_number_is_none():
    models = {"a": {"x": 1, "y": 2, "z": math.nan}, "b": {"x": 1, "y": 2, "z": 2}}
    assert choose_metrics(models) == ("x", "y")


def test_metrics_asked_for_are_taken_in_their_order():
    models = {"a": {"m": 1, "n": 2, "m_low": 0}}
    assert choose_metrics(models, ["n", "m_low"]) == ("n", "m_low")
    assert choose_metrics(models, ["n", "*"]) == ("n", "m")


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["m", "nn"], r"No model has the metric\(s\) \['nn'\]; known: \['m', 'n'\]"),
        (["m"], "two or more metrics"),
        (["m", "m"], "each once"),
        ([], "two or more metrics"),
    ],
)
def test_metrics_that_cannot_be_compared_are_refused(metrics, message):
    with pytest.raises(UserError, match=message):
        choose_metrics({"a": {"m": 1, "n": 2, "m_low": 0, "queries": 5}}, metrics)


def test_a_table_with_nothing_to_choose_asks_for_names():
    row = {"m": 1, "m_low": 0, "queries": 2}
    with pytest.raises(UserError, match=r"these are \['m'\]: .* All metrics: \['m'\]\."):
        choose_metrics({"a": row, "b": row})
    with pytest.raises(UserError, match=r"but \['a'\] is one model: add another, or name"):
        choose_metrics({"a": row}, at_least=1)
    with pytest.raises(UserError, match=r"these are \[\]: evaluate .* metrics: \['m', 'n'\]\."):
        choose_metrics({"a": row, "b": {"n": 1, "n_high": 2}})
    row = {f"own{i}{end}": i for i in range(20) for end in ("", "_low", "_high", "_std")}
    with pytest.raises(UserError, match="Name two or more metrics to compare; 20 are too") as error:
        choose_metrics({"a": row, "b": row})
    assert "_low" not in str(error.value)
    # A board or a table of results has them all.
    chosen = choose_metrics({"a": row, "b": row}, at_least=1)
    assert chosen == tuple(f"own{i}" for i in range(20))
