"""Files of a folder and its subfolders; those that a user may not read are no secret."""

import csv
import os
import pathlib

import pytest

from data_prep.build import build
from data_prep.reading.folders import hash_files, walk
from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import NUMBERS
from xmodal.api.search import items


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """A folder of pictures with texts; `closed` in it may not be read, even if root is tested."""
    folder = tmp_path / "files"
    (folder / "closed").mkdir(parents=True)
    folders.write_images(folder, NUMBERS)
    for path in sorted((folder / "images").iterdir()):
        path.with_suffix(".txt").write_text(f"caption of {path.stem}")
        (folder / "closed" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(os, "access", lambda at, mode: os.path.basename(at) != "closed")
    return folder


def test_a_closed_folder_is_yielded_and_not_entered(closed):
    assert dict(walk(closed))[closed] == ["closed"]
    assert [parent.name for parent, _ in walk(closed)] == ["files", "images"]


@pytest.mark.parametrize("name", ["captioned_images", "class_folders"])
def test_a_closed_folder_is_listed(closed, tmp_path, name):
    builder = build(name, "images", data_dir=str(tmp_path / "tfds"), manual_dir=str(closed))
    with open(os.path.join(builder.data_dir, "left_out.csv"), newline="") as file:
        reasons = {row["where"]: row["reason"] for row in csv.DictReader(file)}
    assert reasons["closed"] == "unreadable folder"


def test_a_closed_folder_is_left_out_of_an_index(closed):
    found = items.from_images(str(closed))
    assert found.left_out[str(closed / "closed")].startswith("unreadable folder")
    assert len(found.names) == len(NUMBERS)


def test_a_closed_folder_itself_is_an_error(tmp_path, monkeypatch):
    def refuse(at):
        raise PermissionError(13, "Permission denied", str(at))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        list(walk(tmp_path))


@pytest.mark.parametrize(
    "prepare", [hash_files, lambda at: build("flickr8k", "images", manual_dir=str(at))]
)
def test_a_missing_folder_is_explained(prepare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"^pets does not exist or is .* in {tmp_path}$"):
        prepare(pathlib.Path("pets"))
    with pytest.raises(FileNotFoundError, match="shell does not replace ~ after =, so write the"):
        prepare(pathlib.Path("~/pets"))
    with pytest.raises(FileNotFoundError, match=r"^/none/pets does not exist or is [a-z ]*$"):
        prepare(pathlib.Path("/none/pets"))
