"""Lines of feature files, and numbers in their names."""

import h5py
import numpy as np
import pytest

from data_prep.region_features.feature_stores import FeatureStores, number_of_name
from xmodal.core.errors import UnexpectedFilesError


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("7\t640\t480\t2\tAAAA\tAAAAAAAAAAAAAAAA\n", "3 numbers of 2 regions"),
        ("7\t640\t480\t1\tAAAA\t*\n", "Error"),
        ("7\t640\t480\t1\tAAAA\n", "5 fields, not 3, 6, 10"),
        ("7\t640\t480\t0\t\t\n", "0 numbers of 0 regions"),
        ("7\t640\t480\tmany\tAAAA\tAAAAAAAAAAAAAAAA\n", "invalid literal"),
    ],
)
def test_damaged_lines_are_faults_of_their_image(tmp_path, content, fault):
    (tmp_path / "some.tsv").write_text(content)
    assert fault in FeatureStores(tmp_path).read(7)


def test_one_line_of_two_files_is_two_places(tmp_path):
    for name, features in (("a", "AACAPw=="), ("b", "AAAAQA==")):  # 1.0 and 2.0
        (tmp_path / f"{name}.tsv").write_text(f"7\t1\t{features}\n")
    with pytest.raises(UnexpectedFilesError, match="image 7 appears twice with different features"):
        FeatureStores(tmp_path)


def test_an_id_of_two_rows_is_ambiguous(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = np.arange(1, 13, dtype=np.float32).reshape(2, 3, 2)
        file["image_ids"] = np.array([7, 7])
    with pytest.raises(UnexpectedFilesError, match="image 7 appears twice with different features"):
        FeatureStores(tmp_path)


def test_numbers_of_names():
    names = ["391895", "COCO_val2014_000000391895.jpg", "a/b/1000092795.npz", "000000000009"]
    assert list(map(number_of_name, names)) == [391895, 391895, 1000092795, 9]
    assert number_of_name("mean") is None
