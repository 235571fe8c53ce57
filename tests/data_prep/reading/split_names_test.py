"""Names of splits."""

import pytest

from data_prep.reading.split_names import check_split_names, split_of_name
from xmodal.core.errors import UnexpectedFilesError


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("train", ["train", "Training", " TRAIN ", "restval", "\uff54rain_"]),
        ("validation", ["validation", "val", "valid", "dev", "Dev"]),
        ("test", ["test", "testing", "TEST"]),
        ("", ["", "eval", "fold 3", "train2", "0"]),
    ],
)
def test_words_for_splits(split, names):
    assert {split_of_name(name) for name in names} == {split}


def test_unknown_names_are_listed_with_the_known_ones():
    check_split_names({"training": 3, "": 2, "Dev": 1}, "a.csv")
    message = (
        r"a.csv: the split 'eval' is not known; found: 'train' 1,234, 'eval' 5, '' 1; known: train "
        r"\(training, .*\); validation \(val, .*\); test \(.*\); rename it, or leave"
    )
    with pytest.raises(UnexpectedFilesError, match=message):
        check_split_names({"train": 1234, "eval": 5, "": 1}, "a.csv", ", or leave")
