"""Files of a folder and its subfolders; those that a user may not read are no secret."""

import os
import pathlib
import shutil

import pytest

from data_prep.reading.image_files import open_images
from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import NUMBERS
from xmodal.api.search import items
from xmodal.core.folders import hash_files, walk


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """A folder of pictures; `closed` in it may not be read, even if root is tested."""
    folder = tmp_path / "files"
    (folder / "closed").mkdir(parents=True)
    folders.write_images(folder, NUMBERS)
    monkeypatch.setattr(os, "access", lambda at, mode: os.path.basename(at) != "closed")
    return folder


def test_a_closed_folder_is_yielded_and_not_entered(closed):
    assert dict(walk(closed))[closed] == ["closed"]
    assert [parent.name for parent, _ in walk(closed)] == ["files", "images"]
    found = items.from_images(str(closed))
    assert found.left_out[str(closed / "closed")].startswith("unreadable folder")
    assert len(found.names) == len(NUMBERS)


# What systems and network drives add to the root of a drive, or to every folder of a share.
_OF_SYSTEMS = [
    *(
        "#recycle",
        "#snapshot",
        "@eaDir",
        "@Recycle",
        "@Recently-Snapshot",
        *(".@__thumb", "@__thumb"),
        "~snapshot",
    ),
    *("$RECYCLE.BIN", "$Recycle.Bin", "RECYCLER", "System Volume Information", "FOUND.000"),
    *("lost+found", ".Trash-1000", ".snapshot", "__MACOSX", ".Trashes", ".Spotlight-V100"),
    "Network Trash Folder",
]


def test_folders_of_systems_are_skipped_and_listed(tmp_path):
    for place in ("dog", "cats+dogs", "snapshot", *_OF_SYSTEMS):
        folders.write_images(tmp_path, NUMBERS[:2], place)
    before = hash_files(tmp_path)
    (tmp_path / "@eaDir" / "new.jpg").write_bytes(b"a thumbnail")
    assert hash_files(tmp_path) == before
    found = items.from_images(str(tmp_path))
    assert len(found.names) == 3 * 2
    assert sorted(map(os.path.basename, found.left_out)) == sorted(_OF_SYSTEMS)


@pytest.mark.parametrize("member", ["__MACOSX/dog/p001.png", "#recycle/p001.png", "dog/._p001.png"])
def test_folders_of_systems_in_archives_are_skipped(tmp_path, member):
    for place in ("dog/p001.png", member):
        (tmp_path / "zipped" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "zipped" / place).write_bytes(folders.picture(1))
    shutil.make_archive(str(tmp_path / "files" / "pets"), "zip", tmp_path / "zipped")
    images = open_images(tmp_path / "files", "pets")
    assert "dog/p001.png" in images
    assert member not in images


@pytest.fixture
def linked(tmp_path):
    """Pictures with texts; a link and a hard link to one of them, and a folder linked twice."""
    folder = tmp_path / "files"
    folders.write_images(folder, NUMBERS, "dog")
    for path in sorted((folder / "dog").iterdir()):
        path.with_suffix(".txt").write_text(f"caption of {path.stem}")
    (folder / "all").symlink_to("dog")
    (folder / "best").mkdir()
    (folder / "best" / "first.png").symlink_to("../dog/p001.png")
    (folder / "best" / "first.txt").write_text("caption of a link")
    (folder / "best" / "second.png").hardlink_to(folder / "dog" / "p002.png")
    folders.write_images(tmp_path / "elsewhere", [40, 41], "cat")
    for name in ("cat", "pets"):
        (folder / name).symlink_to(tmp_path / "elsewhere" / "cat")
    for number in (40, 41):
        text = (tmp_path / "elsewhere" / "cat" / folders.name(number)).with_suffix(".txt")
        text.write_text(f"caption of p{number:03d}")
    return folder


def test_a_file_with_several_paths_is_one_picture(linked):
    found, left_out = folders.read_layout(linked)
    expected = {*(f"dog/{folders.name(n)}" for n in NUMBERS), "cat/p040.png", "cat/p041.png"}
    assert found.keys() == expected
    assert left_out["best/first.png"] == "link"


def test_a_table_may_name_a_picture_by_any_of_its_paths(linked):
    for text in linked.parent.rglob("*.txt"):
        text.unlink()
    rows = [
        *(["best/first.png", "one"], ["dog/p001.png", "two"], ["all/p003.png", "three"]),
        *(["p003.png", "four"], ["pets/p040.png", "five"], ["best/second.png", "six"]),
    ]
    folders.write_csv(linked / "captions.csv", [["image", "caption"], *rows])
    found, left_out = folders.read_layout(linked)
    assert found == {
        "dog/p001.png": ["one", "two"],
        "dog/p003.png": ["three", "four"],
        "cat/p040.png": ["five"],
        "best/second.png": ["six"],
    }
    assert left_out["best/first.png"] == left_out["dog/p002.png"] == "link"


def test_a_missing_folder_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"^pets does not exist or is .* in {tmp_path}$"):
        hash_files(pathlib.Path("pets"))
    with pytest.raises(FileNotFoundError, match="shell does not replace ~ after =, so write the"):
        hash_files(pathlib.Path("~/pets"))
    with pytest.raises(FileNotFoundError, match=r"^/none/pets does not exist or is [a-z ]*$"):
        hash_files(pathlib.Path("/none/pets"))
