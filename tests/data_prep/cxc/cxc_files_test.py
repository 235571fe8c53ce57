"""The released rating files of Crisscrossed Captions, and files in their layout."""

import numpy as np
import pytest

from data_prep.cxc.cxc_files import read_cxc_ratings
from data_prep.cxc.rating_files import read_ratings
from xmodal.core.errors import UnexpectedFilesError


def _write(folder, **files):
    columns = {"sts": "caption1,caption2", "sis": "image1,image2", "sits": "caption,image"}
    for rating, header in columns.items():
        rows = files.get(rating, "")
        path = folder / f"{rating}_val.csv"
        path.write_text(f"{header},agg_score,sampling_method\n{rows}", encoding="utf-8")


def test_names_become_coco_ids(tmp_path):
    image = "COCO_val2014_000000391895.jpg"
    _write(
        tmp_path,
        sts="COCO_val2014:sentid:7,COCO_val2014:sentid:12,2.5,c2c_isim\n",
        sits=f"COCO_val2014:sentid:770337,{image},4.8,c2i_original\n"
        f"COCO_val2014:sentid:3,{image},0,c2i_intrasim\n",
    )
    ratings = read_cxc_ratings(tmp_path, "validation")
    assert list(ratings) == ["sts", "sis", "sits"]
    assert ratings["sts"]["right_ids"].tolist() == [12]
    assert len(ratings["sis"]["scores"]) == 0
    assert ratings["sits"]["left_ids"].tolist() == [770337, 3]
    assert ratings["sits"]["right_ids"].tolist() == [391895, 391895]
    assert ratings["sits"]["left_ids"].dtype == np.int32
    np.testing.assert_array_equal(ratings["sits"]["scores"], np.float32([4.8, 0]))
    assert ratings["sits"]["methods"].tolist() == ["c2i_original", "c2i_intrasim"]
    assert read_cxc_ratings(tmp_path, "train") == {}


_NAME = "COCO_val2014:sentid:{}"


def _rated(folder, raw, header="caption1,caption2,score,sampling_method", **options):
    """Scores of the raters of two pairs, with the means 2.4 and 4.33."""
    pairs = f"{_NAME},{_NAME},{{}},c2c_isim\n".format
    _write(folder, sts=pairs(7, 12, 2.4) + pairs(12, 9, 4.33))
    (folder / "sts_val_raw.csv").write_text("\n".join([header, *(pairs(*row) for row in raw)]))
    pairs = read_ratings(folder / "sts_val.csv", "sts", raters=True, **options)
    return [pair.rater_scores for pair in pairs]


_SCORES = [(2, 3, 2.2, 2.4, 2.4), (5, 4.5, 3.5, 4, 4.65)]
_JUDGMENTS = [
    row for a, b in zip(*_SCORES, strict=True) for row in ((7, 12, a), (12, 9, b))
]  # fmt: skip


def test_scores_of_single_raters_are_read_in_any_order(tmp_path):
    assert _rated(tmp_path, _JUDGMENTS) == _SCORES
    # The headers of the first release named the last column after its first value.
    assert _rated(tmp_path, _JUDGMENTS, "caption1,caption2,raw,c2c_isim") == _SCORES
    # All scores of a pair in one row.
    rows = [(7, 12, "2,3,2.2,2.4,2.4"), (12, 9, "5,4.5,3.5,4,4.65")]
    assert _rated(tmp_path, rows, "caption1,caption2,r1,r2,r3,r4,r5,method") == _SCORES
    # Other datasets may have fewer raters.
    assert _rated(tmp_path, [(7, 12, 2.4), (12, 9, 4.33)], released=False) == [(2.4,), (4.33,)]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            [(7, 12, 4), *_JUDGMENTS[1:]],
            r"_raw.csv: the raters of sts_val.csv line 2, \(4.0, .*\), do not have the mean 2.4.",
        ),
        (_JUDGMENTS[:-1], "the raters of sts_val.csv line 3, .* are not 5. Get both .* again"),
        ([(7, 13, 2)], r"sts_val_raw.csv line 2: KeyError \(7, 13\)"),
        ([(7, 12, "good")], "sts_val_raw.csv line 2: ValueError could not convert .* 'good'"),
    ],
)
def test_raters_of_other_pairs_or_scores_are_an_error(tmp_path, raw, message):
    with pytest.raises(UnexpectedFilesError, match=message):
        _rated(tmp_path, raw)
