import pytest

from xmodal.core.atomic import new_folder, rename_new


def fail_within(writing):
    with writing as target:
        (target / "a").write_text("half")
        raise KeyError


def test_a_folder_gets_its_name_at_the_end_or_never(tmp_path):
    path = tmp_path / "deep" / "folder"
    with pytest.raises(KeyError):
        fail_within(new_folder(path))
    assert list(path.parent.iterdir()) == []
    with new_folder(path) as made:
        (made / "a").write_text("whole")
        assert not path.exists()
    assert [each.name for each in path.iterdir()] == ["a"]


def test_a_new_file_gets_its_name_once(tmp_path):
    path = tmp_path / "scores"
    for number in range(2):
        (tmp_path / f"new{number}").write_text(str(number))
    rename_new(tmp_path / "new0", path)
    with pytest.raises(FileExistsError):
        rename_new(tmp_path / "new1", path)
    assert path.read_text() == "0"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new1", "scores"]
