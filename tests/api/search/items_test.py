"""Items to search, read from users' folders and lists."""

import pathlib
import types
import unicodedata

import numpy as np
import PIL.Image
import pytest

from xmodal.api.search import items
from xmodal.api.search.hits import Hit
from xmodal.apps import search
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
    assert found.names == expected
    assert list(found.left_out) == [str(folder / "gone.png")]


def test_a_file_with_several_names_is_one_item(tmp_path):
    folder = tmp_path / "pictures"
    expected = [_save(folder / name) for name in ("b.png", "c.png", "d.png")]
    (folder / "a_favorite.png").symlink_to("b.png")
    (folder / "albums").mkdir()
    (folder / "albums" / "best.png").symlink_to("../c.png")
    (folder / "z_hard.png").hardlink_to(folder / "d.png")
    # As git-annex keeps files: the folder has links alone.
    _save(tmp_path / "objects" / "SHA256E-s923--0.png")
    for name in ("e.png", "f.png"):
        (folder / name).symlink_to(tmp_path / "objects" / "SHA256E-s923--0.png")
    assert sorted(items.from_images(str(folder)).names) == [*expected, str(folder / "e.png")]
    names = ["b.png", "c.png", "a_favorite.png", "./b.png", "albums/../c.png"]
    (folder / "list.txt").write_text("\n".join(names))
    assert items.from_images(str(folder / "list.txt")).names == expected[:2]


def test_every_file_that_is_not_read_is_listed(tmp_path):
    expected = [_save(tmp_path / name) for name in ("A.PNG", "b.jpe", "c/d.Tiff")]
    for source, name in zip(expected, ("e.jfif", "f.JFIF"), strict=False):
        (tmp_path / name).write_bytes(pathlib.Path(source).read_bytes())
        expected.append(str(tmp_path / name))
    for name in ("phone.HEIC", "notes.txt", "no_ending", ".git/x.png", "__MACOSX/y.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = items.from_images(str(tmp_path))
    assert sorted(found.names) == sorted(expected)
    faults = {pathlib.Path(name).name: fault for name, fault in found.left_out.items()}
    assert list(faults) == [".git", "__MACOSX", "phone.HEIC"]
    assert sorted(found.others) == [".txt", "no ending"]
    assert faults["phone.HEIC"].startswith("unread ending: .heic; convert it to one of .jpg")


def test_lists_with_a_mark_and_other_separators_than_line_feeds(tmp_path):
    path = _save(tmp_path / "a.png")
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfa.png\r\n")
    assert items.from_images(str(tmp_path / "list.txt")).names == [path]
    captions = "an owl\na cat\x85with a hat\u2028and a scarf\n"
    (tmp_path / "captions.txt").write_text(captions, encoding="utf-8-sig", newline="")
    found = items.from_captions(str(tmp_path / "captions.txt"))
    assert list(found.read(0, 2)) == captions.split("\n")[:2]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_list_of_names_that_look_like_those_of_files(tmp_path, form):
    path = _save(tmp_path / unicodedata.normalize("NFD", "Zürich") / "é.png")
    (tmp_path / "list.txt").write_text(unicodedata.normalize(form, "Zürich/é.png\n"))
    assert items.from_images(str(tmp_path / "list.txt")).names == [path]


def test_a_list_of_other_things_than_paths(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"image": "' + 300 * "a" + '"}\n')
    with pytest.raises(UserError, match=r"lists 1 files that are missing, .*one path per line"):
        items.from_images(str(tmp_path / "data.jsonl"))


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
    found = list(items.from_split(split, features=True).read(0, 2))
    assert [each.tolist() for each in found] == [regions[0, :1].tolist(), regions[1, :2].tolist()]


def test_a_picture_in_the_place_of_another_is_not_shown_for_it():
    def split_of(*names):
        labels = {"picture": np.array(names, object)} if names else {}
        ids = np.array([3, 7])
        return types.SimpleNamespace(name="pets", split="test", image_ids=ids, labels=labels)

    assert items.from_split(split_of(), features=False).names == ["pets test 3", "pets test 7"]
    first, second = items.from_split(split_of("a/1.jpg", "b.jpg"), features=False).names
    assert (first, second) == ("pets test a/1.jpg", "pets test b.jpg")
    # The ids are those of before, but the second picture has been replaced.
    after = split_of("a/1.jpg", "c.jpg")
    search._check_unchanged(after, Hit(1, 0, first, 0.5))
    with pytest.raises(UserError, match="has no 'pets test b.jpg' at position 1: the dataset was"):
        search._check_unchanged(after, Hit(2, 1, second, 0.5))


def test_a_table_is_no_list_of_captions(tmp_path):
    for name in ("all.csv", "all.TSV.gz", "all.parquet"):
        (tmp_path / name).write_text("image,caption\n1.jpg,a dog\n")
        with pytest.raises(UserError, match=f"{name} is a table, of which every line would be"):
            items.from_captions(str(tmp_path / name))
