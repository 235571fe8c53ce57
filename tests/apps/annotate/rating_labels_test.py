"""Mean ratings, for small studies and for the released ratings."""

import csv

import pytest

from tests.apps.annotate.small_studies import make_study, pairs, raters
from xmodal.apps.annotate.hand_out import HandOut
from xmodal.apps.annotate.labels import aggregate
from xmodal.core.errors import UserError


def test_pairs_without_all_their_raters_do_not_count(tmp_path):
    study = make_study(
        tmp_path / "study",
        [*pairs("sts", (10, 20), (10, 30), note="c2c_isim"), *pairs("sis", (2, 1))],
        raters_per_item=2,
    )
    with pytest.raises(UserError, match=r"No question of .* of all its 2 rater\(s\) yet"):
        aggregate(study, tmp_path / "labels")
    hand_out = HandOut(study)
    first, second, third = raters(study, 3)
    for rater, ratings in ((first, ["1.5", "3", "5"]), (second, ["2"]), (third, ["4.25"])):
        for rating in ratings:
            hand_out.save(rater, hand_out.next(rater), rating)
    aggregate(study, tmp_path / "labels")
    assert (tmp_path / "labels" / "sts_test.csv").read_text() == (
        "caption1,caption2,agg_score,sampling_method\n"
        "COCO_val2014:sentid:10,COCO_val2014:sentid:20,1.75,c2c_isim\n"
        "COCO_val2014:sentid:10,COCO_val2014:sentid:30,3.62,c2c_isim\n"
    )
    assert not (tmp_path / "labels" / "sis_test.csv").exists()
    with (tmp_path / "labels" / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["kind"], row["value"], row["complete"]) for row in rows[-1:]] == [
        ("sis", "5.0", "False")
    ]
    with pytest.raises(UserError, match="for studies of the kind eccv"):
        aggregate(study, tmp_path / "labels", human_only=True)
