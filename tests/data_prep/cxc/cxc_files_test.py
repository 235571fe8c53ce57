"""The released rating files of Crisscrossed Captions, and files in their layout."""

import numpy as np
import pytest

from data_prep.cxc.cxc_files import read_cxc_ratings
from data_prep.cxc.rating_files import read_rater_scores, read_ratings
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


def _rated(folder, raw, header="caption1,caption2,score,sampling_method"):
    pairs = f"{_NAME},{_NAME},{{}},c2c_isim\n".format
    _write(folder, sts=pairs(7, 12, 2.4) + pairs(12, 9, 4.33))
    rows = "".join(pairs(*row) for row in raw)
    (folder / "sts_val_raw.csv").write_text(f"{header}\n{rows}")
    path = folder / "sts_val.csv"
    return read_rater_scores(path, "sts", read_ratings(path, "sts"))


_JUDGMENTS = [(7, 12, 2), (12, 9, 5), (7, 12, 3), (12, 9, 4.5), (12, 9, 3.5), (7, 12, 2.2)]


def test_scores_of_single_raters_are_read_in_any_order(tmp_path):
    expected = [(2.0, 3.0, 2.2), (5.0, 4.5, 3.5)]
    assert _rated(tmp_path, _JUDGMENTS) == expected
    # The headers of the first release named the last column after its first value.
    assert _rated(tmp_path, _JUDGMENTS, "caption1,caption2,raw,c2c_isim") == expected
    # All scores of a pair in one row.
    raw = [(7, 12, "2,3,2.2"), (12, 9, "5,4.5,3.5")]
    assert _rated(tmp_path, raw, "caption1,caption2,r1,r2,r3,method") == expected
    (tmp_path / "sts_val_raw.csv").unlink()
    path = tmp_path / "sts_val.csv"
    assert read_rater_scores(path, "sts", read_ratings(path, "sts")) == [(), ()]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            [*_JUDGMENTS[:-1], (7, 12, 4)],
            r"1 of 2 means differ, the first is sts_val.csv line 2: 2.4, of \(2.0, 3.0, 4.0\) in",
        ),
        (_JUDGMENTS[1:2], "2 of 2 means differ, .* move this one elsewhere to use the means alone"),
        ([(7, 13, 2)], r"sts_val_raw.csv line 2: pair \(7, 13\) is not in sts_val.csv"),
        ([(7, 12, "good")], "sts_val_raw.csv line 2: could not convert string to float: 'good'"),
    ],
)
def test_raters_of_other_pairs_or_scores_are_an_error(tmp_path, raw, message):
    with pytest.raises(UnexpectedFilesError, match=message):
        _rated(tmp_path, raw)
