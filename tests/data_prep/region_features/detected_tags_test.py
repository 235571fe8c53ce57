"""Tags of objects, as VinVL's detector writes them."""

import pytest

from data_prep.region_features.detected_tags import read_tags
from xmodal.core.errors import UnexpectedFilesError


@pytest.mark.parametrize("line", ["7", "7\t[{}]", "cat\t[]", "7\t[]\n7\t[]", '7\t[{"class": 3}]'])
def test_damaged_tags_are_named(tmp_path, line):
    with pytest.raises(FileNotFoundError, match="has no predictions"):
        read_tags(tmp_path)
    (tmp_path / "predictions.tsv").write_text(line)
    with pytest.raises(UnexpectedFilesError, match=r"predictions.tsv line \d is not an image"):
        read_tags(tmp_path)
