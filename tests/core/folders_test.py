"""Files of a folder and its subfolders; those that a user may not read are no secret."""

import os

import pytest

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
    assert len(found.names) == len(NUMBERS)


# What systems and network drives add to the root of a drive, or to every folder of a share.
_OF_SYSTEMS = ["#recycle", "@eaDir", "~snapshot", "$RECYCLE.BIN", "lost+found", "__MACOSX"]


def test_folders_of_systems_are_skipped(tmp_path):
    for place in ("dog", "cats+dogs", "snapshot", *_OF_SYSTEMS):
        folders.write_images(tmp_path, NUMBERS[:2], place)
    before = hash_files(tmp_path)
    (tmp_path / "@eaDir" / "new.jpg").write_bytes(b"a thumbnail")
    assert hash_files(tmp_path) == before
    found = items.from_images(str(tmp_path))
    assert len(found.names) == 3 * 2
