"""Images in folders and archives of every kind, intact and truncated."""

import shutil
import tarfile
import zipfile

import pytest

from data_prep.reading.image_files import find_images, open_images
from xmodal.core.errors import BadImageError, UnexpectedFilesError

_CONTENTS = {"one.jpg": b"first" * 300, "two.jpg": b"second" * 300}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Dataset").mkdir()
    for name, content in _CONTENTS.items():
        (tmp_path / "Dataset" / name).write_bytes(content)
    return tmp_path


def _pack(folder, ending):
    source, path = folder / "Dataset", folder / f"Dataset{ending}"
    if ending == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in _CONTENTS:
                archive.write(source / name, f"Datasset/{name}")
                archive.writestr(f"__MACOSX/Datasset/{name}", b"not this one")
    elif ending:
        with tarfile.open(path, "w:gz" if "gz" in ending else "w") as archive:
            archive.add(source, "Datasset")
    if ending:
        shutil.rmtree(source)
    return path


@pytest.mark.parametrize("ending", ["", ".zip", ".tar", ".tar.gz", ".tgz"])
def test_images_are_read_by_name_in_any_order(folder, ending):
    _pack(folder, ending)
    files = open_images(folder, "Nothing", "Dataset")
    for name in ("two.jpg", "one.jpg", "two.jpg"):
        assert name in files
        assert files.image(name).read() == _CONTENTS[name]
    missing = files.image("three.jpg")
    assert missing.where == "three.jpg"
    with pytest.raises(BadImageError, match=r"^no image: .*Dataset.* has no three\.jpg"):
        missing.read()


def test_what_is_missing_or_cut_is_named(folder):
    assert find_images(folder, "Nothing") is None
    with pytest.raises(FileNotFoundError, match=r"none of A, B, as a folder or with \.zip, \.tar,"):
        open_images(folder, "A", "B")
    path = _pack(folder, ".tar.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnexpectedFilesError, match=rf"{path} is truncated or not a tar archive"):
        open_images(folder, "Dataset")
