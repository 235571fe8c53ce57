"""Mean ratings, for small studies and for the released ratings."""

import csv

import numpy as np
import pytest
from etils import epath

from data_prep.cxc.cxc_files import THRESHOLDS, format_cxc_file, read_cxc_file
from tests.apps.annotate.small_studies import make_study, pairs, raters
from xmodal.apps.annotate.aggregating import aggregate
from xmodal.apps.annotate.collected import read_answers
from xmodal.apps.annotate.hand_out import HandOut, Place
from xmodal.apps.annotate.rating_labels import describe_ratings, mean_ratings
from xmodal.apps.annotate.study_file import (
    StudyCaption,
    StudyFile,
    StudyQuestion,
    StudySettings,
    StudyUnit,
    create,
)
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


def test_sampling_methods_with_commas_can_be_read_again(tmp_path):
    method = 'random, "by hand"'
    columns = {
        "left_ids": np.array([10]),
        "right_ids": np.array([20]),
        "scores": np.array([1.75]),
        "methods": np.array([method]),
    }
    path = epath.Path(tmp_path / "sts_test.csv")
    path.write_text(format_cxc_file("sts", columns))
    assert read_cxc_file(path, "sts")["methods"].tolist() == [method]


# Section 2 of the specification: rows, and those of at least 3 (images: 2.5).
RELEASED = {
    "sts": {"c2c_isim": ("19,045", "583"), "c2c_cocaption": ("25,000", "15,601")},
    "sis": {"i2i_csim": ("46,719", "21,816")},
    "sits": {"c2i_intrasim": ("19,833", "10,614"), "c2i_original": ("25,000", "24,971")},
}


@pytest.mark.parametrize("rating", RELEASED)
def test_released_ratings_are_written_as_they_were_released(real_data, rating):
    path = epath.Path(real_data / "cxc" / f"{rating}_test.csv")
    columns = read_cxc_file(path, rating)
    assert format_cxc_file(rating, columns | {"scores": columns["scores"].astype(np.float64)}) == (
        path.read_text()
    )
    rows = describe_ratings({rating: columns})
    assert {row[1]: (row[2], row[5]) for row in rows} == RELEASED[rating]
    assert {float(row[4]) for row in rows} == {THRESHOLDS[rating]}


def test_five_raters_whose_means_are_released_scores(real_data, tmp_path):
    """Raters spread around the released scores of real pairs: their means are the released rows."""
    path = epath.Path(real_data / "cxc" / "sits_test.csv")
    released = {name: column[:12] for name, column in read_cxc_file(path, "sits").items()}
    ids = zip(*(released[name].tolist() for name in ("left_ids", "right_ids")), strict=True)
    units = [
        StudyUnit((StudyQuestion("sits", left, right, note=method),))
        for (left, right), method in zip(ids, released["methods"].tolist(), strict=True)
    ]
    captions = [
        StudyCaption(each, "text", 1) for each in sorted(set(released["left_ids"].tolist()))
    ]
    create(tmp_path / "study", StudySettings(), units, captions, [])
    study = StudyFile(tmp_path / "study")
    hand_out = HandOut(study)
    for place_of_rater, rater in enumerate(raters(study, 5)):
        while isinstance(place := hand_out.next(rater), Place):
            score = round(float(released["scores"][place.unit - 1]), 2)
            room = min(score, 5 - score)
            spread = round((place_of_rater - 2) / 2 * room, 2)  # -room ... room
            hand_out.save(rater, place, f"{score + spread:.2f}")
    means = mean_ratings(read_answers(study))
    lines = path.read_text().splitlines(keepends=True)
    assert format_cxc_file("sits", means["sits"]) == "".join(lines[:13])
