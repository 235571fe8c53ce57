"""The released rating files of Crisscrossed Captions, and files in their layout."""

import numpy as np

from data_prep.cxc.cxc_files import read_cxc_ratings


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
