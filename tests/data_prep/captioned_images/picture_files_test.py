"""Images in folders and archives, whose file names may be spelled in several ways."""

import io
import tarfile
import unicodedata
import zipfile

import pytest

from data_prep.building.image_check import BadImageError
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.unused_files import without_row
from data_prep.errors import UnexpectedFilesError


def _archive(path, *members):
    path.parent.mkdir(parents=True, exist_ok=True)
    contents = {member: f"{path.stem}: {member}".encode() for member in members}
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in contents.items():
                archive.writestr(member, content)
        return
    with tarfile.open(path, "w:gz" if "gz" in path.name.lower() else "w") as archive:
        for member, content in contents.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"file: {name}")


def _read(folder, name, table="captions.csv"):
    return PictureFiles(folder).find(name, folder / table).read().decode()


def test_folders_in_an_archive_distinguish_equal_file_names(tmp_path):
    _archive(tmp_path / "pets.zip", "cats/1.jpg", "dogs/1.jpg", "dogs/2.jpg", "1.jpg")
    assert _read(tmp_path, "cats/1.jpg") == "pets: cats/1.jpg"
    assert _read(tmp_path, "dogs\\1.jpg") == "pets: dogs/1.jpg"
    assert _read(tmp_path, "pets/1.jpg") == "pets: 1.jpg"
    assert _read(tmp_path, "2.jpg") == "pets: dogs/2.jpg"
    with pytest.raises(BadImageError, match=r"no image: .* has no images/2\.jpg"):
        _read(tmp_path, "images/2.jpg")
    with pytest.raises(BadImageError, match=r"ambiguous name: 1\.jpg is pets/cats.* and pets/dogs"):
        _read(tmp_path, "1.jpg")


def test_archives_distinguish_equal_file_names(tmp_path):
    _archive(tmp_path / "train.zip", "1.jpg")
    _archive(tmp_path / "val.zip", "1.jpg")
    assert _read(tmp_path, "train/1.jpg") == "train: 1.jpg"
    assert _read(tmp_path, "val/1.jpg") == "val: 1.jpg"
    with pytest.raises(BadImageError, match=r"ambiguous name: 1\.jpg is train/1.* and val/1"):
        _read(tmp_path, "1.jpg")
    with pytest.raises(BadImageError, match="no image"):
        _read(tmp_path, "test/1.jpg")


@pytest.mark.parametrize("name", ["more.zip", "MORE.ZIP", "more.TAR", "more.Tar.Gz", "m.o.tgz"])
@pytest.mark.parametrize("place", ["", "deep/er/"])
def test_archives_in_any_case_and_place(name, place, tmp_path):
    decomposed = unicodedata.normalize("NFD", "é.jpg")
    _archive(tmp_path / f"{place}{name}", "PIC.JPG", f"a/{decomposed}", "b\\4.jpg", "._PIC.JPG")
    stem = tmp_path.joinpath(name).stem.removesuffix(".Tar")
    assert _read(tmp_path, "pic.jpg") == f"{(tmp_path / name).stem}: PIC.JPG"
    assert _read(tmp_path, f"{stem}/pic.jpg").endswith("PIC.JPG")
    assert _read(tmp_path, "a/é.jpg").endswith(decomposed)
    assert _read(tmp_path, "b/4.jpg").endswith("b\\4.jpg")
    assert len(PictureFiles(tmp_path)) == 3


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


def test_unpacked_images_are_read_beside_their_archive(tmp_path):
    _archive(tmp_path / "pets.zip", "cats/1.jpg", "cats/2.jpg")
    _archive(tmp_path / "birds.zip", "3.jpg")
    _write(tmp_path, "cats/1.jpg", "birds/3.jpg", "owls/2.jpg")
    assert _read(tmp_path, "cats/1.jpg") == "file: cats/1.jpg"
    assert _read(tmp_path, "3.jpg") == "file: birds/3.jpg"
    with pytest.raises(BadImageError, match=r"ambiguous name: 2.jpg is owls/.* and pets/cats/"):
        _read(tmp_path, "2.jpg")


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


def test_images_of_an_archive_that_cannot_be_read_say_so(tmp_path):
    _archive(tmp_path / "pets.zip", "cats/1.heic", "cats/2.jpg", "notes.txt")
    files = PictureFiles(tmp_path)
    assert list(files.places()) == ["pets/cats/1.heic", "pets/cats/2.jpg"]
    assert len(files) == 1
    with pytest.raises(BadImageError, match="unread ending: convert it"):
        files.find("cats/1", tmp_path / "captions.csv").read()


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


def test_archives_of_equal_names_beside_their_tables(tmp_path):
    for folder in ("cats", "dogs"):
        _archive(tmp_path / folder / "images.zip", "1.jpg")
    files = PictureFiles(tmp_path)
    for folder in ("cats", "dogs"):
        found = files.find("1.jpg", tmp_path / folder / "all.csv", is_beside=True)
        assert found.where == f"{folder}/images/1.jpg"


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
def test_two_different_members_of_one_name_are_no_picture(tmp_path, name):
    contents = [("1.jpg", b"one"), ("2.jpg", b"same"), ("1.jpg", b"two"), ("2.jpg", b"same")]
    if name == "a.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, content in contents:
                archive.writestr(member, content)
    else:
        with tarfile.open(tmp_path / name, "w") as archive:
            for member, content in contents:
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    files, table = PictureFiles(tmp_path), tmp_path / "all.csv"
    assert files.find("2.jpg", table).read() == b"same"
    with pytest.raises(BadImageError, match=rf"{name} has several different 1.jpg"):
        files.find("1.jpg", table).read()


def test_a_damaged_archive_is_named_where_a_picture_is_missing(tmp_path):
    _write(tmp_path, "1.jpg")
    (tmp_path / "old.zip").write_bytes(b"PK\3\4 cut off")
    files, table = PictureFiles(tmp_path), tmp_path / "all.csv"
    assert files.find("1.jpg", table).read() == b"file: 1.jpg"
    with pytest.raises(BadImageError, match=r"has no 2.jpg, but old.zip cannot be read: trunc"):
        files.find("2.jpg", table).read()
    ((place, reason),) = [(each.where, each.reason) for each in without_row(files, {"1.jpg"})]
    assert (place, reason) == ("old.zip", "damaged archive")


def test_an_image_as_text_is_not_taken_for_a_name(tmp_path):
    with pytest.raises(UnexpectedFilesError, match="all.csv has '/9j/4AAQ.{31}... in place of"):
        PictureFiles(tmp_path).find("/9j/4AAQ" * 1000, tmp_path / "all.csv")
