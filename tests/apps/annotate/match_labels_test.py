"""Positives computed from answers, for small studies and for the released lists."""

import json

import pytest

from data_prep.reading.csv_files import read_csv
from tests.apps.annotate.server import Client, links, serving
from tests.apps.annotate.small_studies import make_study, raters
from xmodal.apps.annotate.answers import Answer, decide
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place
from xmodal.apps.annotate.labels import aggregate
from xmodal.apps.annotate.match_labels import judge, positives_of_queries, read_added, read_judged
from xmodal.apps.annotate.study_file import (
    Proposal,
    StudyQuestion,
    StudyUnit,
)
from xmodal.core.errors import UserError
from xmodal.evals.labels.annotations import read_annotations, read_lists
from xmodal.evals.labels.make import make_benchmarks


def match(caption, image, golden=None):
    return StudyQuestion("match", caption, image, golden=golden)


def answer(queue, rater, answers):
    """Answers the next question, by pair."""
    while isinstance(place := queue.next(rater), Place):
        question = queue.page(rater, place).question
        queue.save(rater, place, answers[question.left, question.right])


PROPOSALS = [
    Proposal(*pair, model, direction, rank)
    for pair, model, direction, rank in (
        ((10, 1), "clip", "i2t", 1),
        ((30, 1), "clip", "i2t", 2),
        ((10, 1), "clip", "t2i", 1),
        ((10, 2), "clip", "t2i", 2),
        ((10, 2), "vsrn", "t2i", 1),
        ((20, 2), "vsrn", "t2i", 1),
        ((50, 1), "vsrn", "i2t", 1),  # proposed, but not asked
    )
]


@pytest.fixture
def study(tmp_path):
    units = [
        StudyUnit((match(10, 1), match(10, 2), match(61, 6, "yes"), match(60, 1, "no"))),
        StudyUnit((match(20, 2), match(30, 1), match(51, 5, "yes"), match(60, 2, "no"))),
    ]
    return make_study(
        tmp_path / "study",
        units,
        kind="eccv",
        dataset="captioned_images",
        split="validation",
        raters_per_item=1,
        image_queries=(1, 2),
        caption_queries=(10, 20),
        proposals=PROPOSALS,
    )


GOOD = {(61, 6): "yes", (51, 5): "weak_yes", (60, 1): "no", (60, 2): "weak_no"}


def read(folder):
    names = ("image_to_caption", "caption_to_image")
    return [json.loads((folder / f"eccv_{name}.json").read_text()) for name in names]


def test_positives_are_yes_and_weak_yes_and_unseen_originals(study, tmp_path):
    answers = {(10, 1): "weak_no", (10, 2): "weak_yes", (20, 2): "yes", (30, 1): "yes"}
    (rater,) = raters(study, 1)
    answer(AssignmentQueue(study), rater, answers | GOOD)
    report = aggregate([study], tmp_path / "labels")
    # The rater saw and rejected the original pair (10, 1); nobody saw (11, 1).
    assert read(tmp_path / "labels") == [
        {"1": [11, 30], "2": [10, 20, 21]},
        {"10": [2], "20": [2]},
    ]
    assert ["captions of an image", "2", "5", "2.50"] in tables(report)
    # These labels belong to the dataset of the study.
    found = read_annotations(tmp_path / "labels", "test")
    assert (found.name, found.split) == ("captioned_images", "validation")
    sets = {each.name: each.label_set for each in make_benchmarks(found)}
    assert sets == {"captioned_images": "labels", "eccv": "labels"}
    aggregate([study], tmp_path / "human", human_only=True)
    assert read(tmp_path / "human") == [{"1": [30], "2": [10, 20]}, {"10": [2], "20": [2]}]
    (tmp_path / "wrong.txt").write_text("20\n11\n")
    aggregate([study], tmp_path / "left", without=str(tmp_path / "wrong.txt"))
    assert read(tmp_path / "left") == [{"1": [30], "2": [10, 21]}, {"10": [2]}]
    assert read_annotations(tmp_path / "left", "test").label_set == "left"
    aggregate([study], tmp_path / "left", name="mine@2026-11")
    assert read_annotations(tmp_path / "left", "test").label_set == "mine@2026-11"


def tables(report):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.splitlines()]


def rows_of(path, *columns):
    return [tuple(row[name] for name in columns) for _, row in read_csv(path, columns=columns)]


def test_labels_know_who_proposed_them(study, tmp_path):
    answers = {(10, 1): "yes", (10, 2): "weak_yes", (20, 2): "no", (30, 1): "yes"}
    answer(AssignmentQueue(study), *raters(study, 1), answers | GOOD)
    cells = tables(aggregate([study], tmp_path / "all"))
    names = "annotator", "rank", "proposed", "judged", "accepted", "by no other model"
    assert [*names] in cells
    assert ["clip", "all", "3", "3", "3", "2"] in cells
    assert ["clip", "1", "1", "1", "1", "1"] in cells  # (10, 1), in both directions
    assert ["clip", "2", "2", "2", "2", "1"] in cells
    assert ["vsrn", "all", "3", "2", "1", "0"] in cells
    who = rows_of(tmp_path / "all" / "answers.csv", "left", "right", "counts", "proposed_by")
    assert ("10", "2", "1", "clip t2i 2; vsrn t2i 1") in who
    assert ("60", "1", "0", "") in who
    names = "caption", "image", "model", "direction", "rank", "positive"
    found = rows_of(tmp_path / "all" / "proposals.csv", *names)
    assert [row[:5] for row in found] == [tuple(map(str, each)) for each in PROPOSALS]
    assert [row[5] for row in found] == ["1", "1", "1", "1", "1", "0", ""]

    cells = tables(aggregate([study], tmp_path / "one", from_models=["vsrn"]))
    # Nobody would have seen (10, 1) and (30, 1): the original stays, the other is unknown.
    assert read(tmp_path / "one") == [{"1": [10, 11], "2": [10, 21]}, {"10": [1, 2]}]
    assert ["vsrn", "all", "3", "2", "1", "1"] in cells
    annotated = json.loads((tmp_path / "one" / "annotated_caption_to_image.json").read_text())
    assert annotated == {"10": [2], "20": [2]}
    with pytest.raises(UserError, match="'vse' in --from_models; known: \\['clip', 'vsrn'"):
        aggregate([study], tmp_path / "none", from_models=["vse"])


def test_rules_and_strict_labels():
    values = {1: ["yes", "weak_yes", "no"], 2: ["yes", "weak_yes"], 3: ["yes", "no"], 4: ["yes"]}
    answers = [
        Answer(1, 0, "rater", "match", 10, image, None, None, "", value, 1.0, 0, "finished", 0, 1)
        for image, given in values.items()
        for value in given
    ]

    def positive(*rule, **strict):
        return [
            image for (_, image), is_right in judge(answers, *rule, **strict).items() if is_right
        ]

    assert positive() == [1, 2, 4]  # half is no majority
    assert (positive("all"), positive(strict=True), positive("all", strict=True)) == (
        [2, 4], [4], [4]
    )  # fmt: skip


def test_two_studies_give_one_set_of_labels(study, tmp_path):
    second = make_study(
        tmp_path / "second",
        [StudyUnit((match(10, 2), match(40, 2), match(51, 5, "yes"), match(60, 3, "no")))],
        kind="eccv",
        dataset="captioned_images",
        split="validation",
        raters_per_item=2,
        image_queries=(2,),
        caption_queries=(40,),
        proposals=[Proposal(10, 2, "vse", "i2t", 1), Proposal(40, 2, "vse", "t2i", 1),
                   Proposal(30, 1, "vse", "t2i", 2)],
    )  # fmt: skip
    first = {(10, 1): "yes", (10, 2): "yes", (20, 2): "yes", (30, 1): "yes"}
    answer(AssignmentQueue(study), *raters(study, 1), first | GOOD)
    for rater in raters(second, 2):
        answers = {(10, 2): "no", (40, 2): "yes", (60, 3): "no"}
        answer(AssignmentQueue(second), rater, answers | GOOD)
    report = aggregate([study, second], tmp_path / "labels")
    # Two of three reject (10, 2).
    assert read(tmp_path / "labels") == [
        {"1": [10, 11, 30], "2": [20, 21, 40]},
        {"10": [1], "20": [2], "40": [2, 4]},
    ]
    cells = tables(report)
    assert ["vse", "all", "3", "3", "2", "1"] in cells  # (30, 1) was judged in the first
    names = {row[0] for row in rows_of(tmp_path / "labels" / "raters.csv", "rater")}
    assert names == {"study/rater1", "second/rater1", "second/rater2"}
    with pytest.raises(UserError, match="different names"):
        aggregate([study, study], tmp_path / "twice")
    # What is judged is the same in every form.
    labels = tmp_path / "labels"
    judged = {(10, 1), (10, 2), (20, 2), (30, 1)}
    assert read_judged(str(study.path)) == judged
    assert (
        read_judged(str(labels)) == judged | {(40, 2)} == read_judged(str(labels / "answers.csv"))
    )
    (tmp_path / "mturk_parsed.csv").write_text("cid,iid,annotation\n10,1,4\n20,2,1\n")
    assert read_judged(str(tmp_path / "mturk_parsed.csv")) == {(10, 1), (20, 2)}


def test_raters_call_captions_wrong_and_say_why(study, tmp_path):
    with serving(study) as server:
        (link,) = links(study, server, 1).values()
        client = Client(server.address).join(link)
        place = client.place()
        assert 'name="wrong_caption"' in client.get(place)[1]
        text = "&wrong_caption=1&because=+%3Cb%3E+%C3%A9%22"
        assert client.post(place, f"answer=weak_no{text}")[0].status == 303
        page = client.get(place)[1]
        assert 'value="1" checked' in page
        assert "&lt;b&gt; Ã©&#34;" in page  # read as Latin-1
        for _ in range(2):  # The second is a double click.
            assert client.post(place, "answer=weak_no&because=cold")[0].status == 303
        assert 'value="1" checked' not in client.get(place)[1]
        assert client.post(place, f"answer=weak_no{text}")[0].status == 303
        while (place := client.place()) != "/end":
            page = client.get(place)[1]
            assert " checked" not in page
            client.post(place, "answer=yes")
    for unit in (1, 2):
        decide(study, unit, "rater1", accept=True)
    report = aggregate([study], tmp_path / "labels")
    assert "1 caption(s) that raters call wrong" in report
    assert (tmp_path / "labels" / "wrong_captions.txt").read_text() == "10\n"
    rows = rows_of(tmp_path / "labels" / "answers.csv", "left", "wrong_caption", "because")
    assert [row for row in rows if row[1:] != ("0", "")] == [("10", "1", '<b> é"')]
    aggregate([study], tmp_path / "left", without=str(tmp_path / "labels" / "wrong_captions.txt"))
    assert read(tmp_path / "left") == [{"1": [11, 30], "2": [20, 21]}, {"20": [2]}]


def released_pairs(folder, name):
    """(caption, image) of the two released lists."""

    def pairs(file):
        queries, items = read_lists(folder / f"{name}_{file}.json")
        return zip(queries.tolist(), items.tolist(), strict=True)

    i2t = {(caption, image) for image, caption in pairs("image_to_caption")}
    return i2t, set(pairs("caption_to_image"))


@pytest.mark.slow
def test_cxc_as_a_sixth_annotator(real_data):
    """Table 3: CxC has 1,895 positive images and 8,906 captions of the queries of ECCV Caption."""
    i2t, t2i = released_pairs(real_data / "eccv_caption", "eccv")
    queries = {image for _, image in i2t}, {caption for caption, _ in t2i}
    added = read_added(str(real_data), "test")
    assert len(added) == 35_585
    found = positives_of_queries(added, *queries)
    assert {direction: sum(map(len, lists.values())) for direction, lists in found.items()} == {
        "i2t": 8_906,
        "t2i": 1_895,
    }


def test_released_positives_are_symmetric(real_data):
    """Between a query image and a query caption, both lists say the same, as ours do."""
    i2t, t2i = released_pairs(real_data / "eccv_caption", "eccv")
    images, captions = {image for _, image in i2t}, {caption for caption, _ in t2i}
    shared = [{(c, i) for c, i in pairs if c in captions and i in images} for pairs in (i2t, t2i)]
    assert shared[0] == shared[1]
    assert len(shared[0]) == 6_089
