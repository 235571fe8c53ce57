"""Entries of folders whose paths look like patterns."""

import pytest

from xmodal.base.entries import find_entries


@pytest.mark.parametrize("name", ["a[x]", "a*?", "a\\b", "a"])
def test_only_names_are_compared_with_the_pattern(tmp_path, name):
    for folder in (name, "ax", "abc"):
        (tmp_path / folder).mkdir()
        for file in ("1.json", "2.json", "1.txt"):
            (tmp_path / folder / file).touch()
    found = find_entries(tmp_path / name, "[0-9].json")
    assert found == [tmp_path / name / "1.json", tmp_path / name / "2.json"]
    assert find_entries(tmp_path / "none", "*") == []
