"""Images in folders, whose file names may be spelled in several ways."""

import pytest

from data_prep.captioned_images.picture_files import PictureFiles
from xmodal.core.errors import BadImageError, UnexpectedFilesError


def _write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"file: {name}")


def _read(folder, name, table="captions.csv"):
    return PictureFiles(folder).find(name, folder / table).read().decode()


def test_a_name_with_a_folder_is_never_another_file_of_this_name(tmp_path):
    _write(tmp_path, "dogs/3.jpg", "set/cats/1.jpg", "1.jpg", "set/1.jpg")
    with pytest.raises(BadImageError, match=r"no image: .* has no cats/3\.jpg"):
        _read(tmp_path, "cats/3.jpg")
    with pytest.raises(BadImageError, match="no image"):
        _read(tmp_path, "photos\\3.jpg")
    assert _read(tmp_path, "cats/1.jpg") == "file: set/cats/1.jpg"
    assert _read(tmp_path, "1.jpg") == "file: 1.jpg"  # the path from the table
    assert _read(tmp_path, "cats/1.jpg", "set/captions.csv") == "file: set/cats/1.jpg"
    # From the table and from the folder.
    with pytest.raises(BadImageError, match=r"ambiguous name: 1\.jpg is 1\.jpg and set/1\.jpg"):
        _read(tmp_path, "1.jpg", "set/captions.csv")
    assert _read(tmp_path, "../dogs/3.jpg", "set/captions.csv") == "file: dogs/3.jpg"
    for outside in ("../3.jpg", "..\\3.jpg", "/etc/3.jpg", "C:\\photos\\3.jpg"):
        with pytest.raises(UnexpectedFilesError, match="which is not in"):
            _read(tmp_path, outside)


def test_files_that_cannot_be_read_say_why(tmp_path):
    _write(tmp_path, "phone.heic")
    (tmp_path / "link.jpg").symlink_to(tmp_path / "gone.jpg")
    for name, reason in {
        "link.jpg": "broken link",
        "link": "broken link",
        "phone.heic": "unread ending: convert it to one of .jpg",
        "phone": "unread ending",
    }.items():
        with pytest.raises(BadImageError, match=reason):
            _read(tmp_path, name)


def test_the_image_of_a_table_beside_its_images_is_not_that_of_another(tmp_path):
    _write(tmp_path, "cats/1.jpg", "cats/more/3.jpg", "dogs/1.jpg", "dogs/2.jpg", "birds/4.jpg")
    files, table = PictureFiles(tmp_path), tmp_path / "cats" / "captions.csv"
    assert files.are_beside(["2.jpg", "1.jpg"], table)
    assert not files.are_beside(["2.jpg", "cats/5.jpg"], table)
    assert not files.are_beside(["1.jpg"], tmp_path / "captions.csv")
    read = {
        name: files.find(name, table, is_beside=True).read()
        for name in ("1.jpg", "3.jpg", "dogs/2.jpg", "DOGS/2.jpg")
    }
    assert list(map(bytes.decode, read.values())) == [
        "file: cats/1.jpg", "file: cats/more/3.jpg", "file: dogs/2.jpg", "file: dogs/2.jpg",
    ]  # fmt: skip
    _write(tmp_path, "cats/even/6.jpg", "dogs/even/6.jpg")
    files = PictureFiles(tmp_path)
    assert files.are_beside(["6.jpg"], table)
    with pytest.raises(BadImageError, match=r"ambiguous name: 6.jpg is cats.* and dogs"):
        files.find("6.jpg", table).read()
    assert files.find("6.jpg", table, is_beside=True).read() == b"file: cats/even/6.jpg"
    for name in ("2.jpg", "4.jpg"):
        assert files.find(name, table).read()
        with pytest.raises(BadImageError, match=rf"no image: .*cats has no {name}"):
            files.find(name, table, is_beside=True).read()


def test_an_image_as_text_is_not_taken_for_a_name(tmp_path):
    with pytest.raises(UnexpectedFilesError, match="all.csv has '/9j/4AAQ.{31}... in place of"):
        PictureFiles(tmp_path).find("/9j/4AAQ" * 1000, tmp_path / "all.csv")
