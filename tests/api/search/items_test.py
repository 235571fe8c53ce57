"""Items to search, read from users' folders and lists."""

import types

import numpy as np
import PIL.Image
import pytest

from xmodal.api.search import items
from xmodal.core.errors import UserError


def _save(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(path)
    return str(path.resolve())


def test_pictures_behind_links_are_found_once(tmp_path):
    folder = tmp_path / "pictures"
    expected = [_save(folder / "a.png"), str(folder / "link" / "b.png")]
    _save(tmp_path / "other" / "b.png")
    (folder / "link").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "circle").symlink_to(folder)
    (folder / "gone.png").symlink_to(tmp_path / "gone.png")
    (folder / "._a.png").write_bytes(b"macOS's metadata of a.png")
    found = items.from_images(str(folder))
    # The broken link is left out when it is read.
    assert sorted(found.names) == sorted([*expected, str(folder / "gone.png")])


def test_a_file_with_several_names_is_one_item(tmp_path):
    folder = tmp_path / "pictures"
    expected = [_save(folder / name) for name in ("b.png", "c.png", "d.png")]
    (folder / "a_favorite.png").symlink_to("b.png")
    (folder / "albums").mkdir()
    (folder / "albums" / "best.png").symlink_to("../c.png")
    assert sorted(items.from_images(str(folder)).names) == expected
    names = ["b.png", "c.png", "a_favorite.png", "./b.png", "albums/../c.png"]
    (folder / "list.txt").write_text("\n".join(names))
    assert items.from_images(str(folder / "list.txt")).names == expected[:2]


def test_a_misspelled_folder(tmp_path):
    with pytest.raises(UserError, match="fotos is neither a folder nor a list of images"):
        items.from_images(str(tmp_path / "fotos"))


def test_regions_of_a_dataset_are_read_without_their_padding():
    regions = np.arange(24.0).reshape(2, 3, 4)
    mask = np.array([[True, False, False], [True, True, False]])
    split = types.SimpleNamespace(
        name="photos",
        split="test",
        image_ids=np.arange(2),
        labels={},
        images=lambda size, rows: iter([{"image": regions[rows], "image_mask": mask[rows]}]),
    )
    found = list(items.from_split(split, features=True).read())
    assert [each.tolist() for each in found] == [regions[0, :1].tolist(), regions[1, :2].tolist()]
