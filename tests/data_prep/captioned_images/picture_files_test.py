"""Images in archives whose file names are not unique."""

import zipfile

import pytest

from data_prep.building.image_check import BadImageError
from data_prep.captioned_images.picture_files import PictureFiles


def _archive(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, f"{path.stem}: {member}")


def _read(folder, name):
    return PictureFiles(folder).find(name, folder / "captions.csv").read().decode()


def test_folders_in_an_archive_distinguish_equal_file_names(tmp_path):
    _archive(tmp_path / "pets.zip", "cats/1.jpg", "dogs/1.jpg", "dogs/2.jpg")
    assert _read(tmp_path, "cats/1.jpg") == "pets: cats/1.jpg"
    assert _read(tmp_path, "dogs\\1.jpg") == "pets: dogs/1.jpg"
    assert _read(tmp_path, "images/2.jpg") == "pets: dogs/2.jpg"
    with pytest.raises(BadImageError, match=r"ambiguous name: 1\.jpg is pets/cats.* and pets/dogs"):
        _read(tmp_path, "1.jpg")


def test_archives_distinguish_equal_file_names(tmp_path):
    _archive(tmp_path / "train.zip", "1.jpg")
    _archive(tmp_path / "val.zip", "1.jpg")
    assert _read(tmp_path, "train/1.jpg") == "train: 1.jpg"
    assert _read(tmp_path, "val/1.jpg") == "val: 1.jpg"
    with pytest.raises(BadImageError, match="ambiguous name"):
        _read(tmp_path, "test/1.jpg")
