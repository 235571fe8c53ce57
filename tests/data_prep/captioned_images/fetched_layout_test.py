"""Pictures with captions beside them: captions that are read, and reasons for the rest."""

import io
import json
import tarfile

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.fetched_layout import FetchedLayout
from data_prep.captioned_images.options import ReadingOptions
from tests.data_prep.captioned_images.own_folders import prepare
from xmodal.core.errors import UnexpectedFilesError

_PICTURE = b"a picture"


def _read(folder, **options):
    """Captions of each name read, and reasons of each name left out."""
    items = list(FetchedLayout(folder, ReadingOptions(**options)).pictures())
    found = {i.name: list(i.captions) for i in items if not isinstance(i, LeftOut)}
    left_out = {i.where: i for i in items if isinstance(i, LeftOut)}
    return found, left_out


def _reasons(left_out):
    return {name: item.reason for name, item in left_out.items()}


def _write(folder, contents):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_everything_in_the_folder_is_read_or_listed(tmp_path):
    _write(
        tmp_path,
        {
            "a.jfif": _PICTURE,
            "a.txt": "of a\n\nagain a\n",
            "b/B.JPEG": _PICTURE,
            "b/B.TXT": "of b",
            "22.05.jpg": _PICTURE,
            "22.05.txt": "of 22.05",
            "22.06.jpg": _PICTURE,
            "phone.heic": _PICTURE,
            "phone.txt": "of a phone",
            "orphan.txt": "whose?",
            "orphan2.json": {"caption": "whose?"},
            "info.json": {"name": "my pets"},
            "video.mp4": b"",
            "no_ending": b"",
            "notes.csv": "",
            "README.md": "",
            "LICENSE.txt": "",
            "dataset_infos.json": {},
            ".git/HEAD": "",
            "__MACOSX/a.jpg": b"",
            "@eaDir/a.jpg/thumbnail.jpg": _PICTURE,
            "Thumbs.db": b"",
        },
    )
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    found, left_out = _read(tmp_path)
    assert found == {
        "a.jfif": ["of a", "again a"],
        "b/B.JPEG": ["of b"],
        "22.05.jpg": ["of 22.05"],
        "22.06.jpg": [],
    }
    assert _reasons(left_out) == {
        "orphan.txt": "no image",
        "orphan2.json": "no image",
        "phone.heic": "unread ending",
        "info.json": "unread file",
        "video.mp4": "unread ending",
        "no_ending": "unread ending",
        "notes.csv": "unread file",
        "gone.png": "broken link",
        **dict.fromkeys((".git", "__MACOSX", "@eaDir"), "skipped folder"),
    }
    lost = {name for name, item in left_out.items() if item.is_record}
    assert lost == {"orphan.txt", "orphan2.json", "phone.heic", "gone.png"}


def test_texts_may_keep_the_ending_of_their_image(tmp_path):
    _write(
        tmp_path,
        {
            "a.JPG": _PICTURE,
            "a.JPG.txt": "of a",
            "b.jpg": _PICTURE,
            "b.jpg.supplemental-metadata.json": {"description": "of b"},
            "b(1).jpg": _PICTURE,
            "b.jpg.supplemental-metadata(1).json": {"description": "of another b"},
            "c.jpg.webp": _PICTURE,
            "c.jpg.txt": "of c",
            "d.jpg": _PICTURE,
            "d.txt": "of d",
            "d.jpg.txt": "again d",
            "e.heic": _PICTURE,
            "e.heic.json": {"description": "of e"},
            "f.jpg of mine.jpg": _PICTURE,
            "f.jpg of mine.txt": "of f",
        },
    )
    found, left_out = _read(tmp_path)
    assert found == {
        "a.JPG": ["of a"],
        "b.jpg": ["of b"],
        "b(1).jpg": ["of another b"],
        "c.jpg.webp": ["of c"],
        "f.jpg of mine.jpg": ["of f"],
    }
    assert _reasons(left_out) == {"d.jpg": "several texts of an image", "e.heic": "unread ending"}
    assert left_out["d.jpg"].detail == "d.jpg.txt and d.txt"


def test_a_text_with_the_whole_name_of_an_image_is_of_no_other(tmp_path):
    _write(
        tmp_path,
        {
            **{name: _PICTURE for name in ("a.jpg", "a.png", "b.jpg", "b.heic")},
            **{f"{name}.txt": f"of {name}" for name in ("a.jpg", "a.png", "b.jpg", "b.heic")},
            **{f"c.gif.{n}.png": _PICTURE for n in range(2)},
            **{f"c.gif.{n}.txt": f"frame {n}" for n in range(2)},
        },
    )
    found, left_out = _read(tmp_path)
    assert found == {
        "a.jpg": ["of a.jpg"],
        "a.png": ["of a.png"],
        "b.jpg": ["of b.jpg"],
        "c.gif.0.png": ["frame 0"],
        "c.gif.1.png": ["frame 1"],
    }
    assert _reasons(left_out) == {"b.heic": "unread ending"}


def test_a_text_that_could_be_of_two_images_is_of_none(tmp_path):
    _write(
        tmp_path,
        {
            "a.jpg": _PICTURE,
            "a.png": _PICTURE,
            "a.txt": "of which?",
            "b.jpg": _PICTURE,
            "b.txt": "one",
            "b.TXT": "two",
            "c.jpg": _PICTURE,
            "c.png": _PICTURE,
        },
    )
    found, left_out = _read(tmp_path)
    assert found == {"c.jpg": [], "c.png": []}  # without a text, nothing is uncertain
    assert left_out["a.jpg"].detail == left_out["a.png"].detail == "a.jpg and a.png share a.txt"
    assert left_out["b.jpg"].reason == "several texts of an image"
    assert left_out["b.jpg"].detail == "b.TXT and b.txt"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"caption": "one"}, ["one"]),
        ({"captions": ["one", "two"]}, ["one", "two"]),
        ({"captions": "one"}, ["one"]),
        ({"Caption": "one", "title": "another"}, ["one"]),
        ({"caption": "one", "captions": ["one", "two"]}, ["one", "two"]),
        ({"text": "one", "id": 3}, ["one"]),
        ({"caption": None, "url": "http://x"}, []),
        ({"text": "one", "title": "two"}, "captions under two keys: 'text' and 'title'"),
        ({"words": "one", "id": 3}, "no caption under the keys 'words', 'id': name the key"),
        ([{"caption": "one"}], "unread JSON file: it is a list, not an object: [{'caption': 'one"),
        ("7", "unread JSON file: it is a number, not an object: 7"),
        ("{cut", "unread JSON file: Expecting property name"),
        (
            '{"caption": "one", "caption": "two"}',
            "unread JSON file: the key 'caption' occurs twice",
        ),
    ],
)
def test_keys_of_json_files(tmp_path, content, expected):
    _write(tmp_path, {"a.jpg": _PICTURE, "a.json": content})
    found, left_out = _read(tmp_path)
    if isinstance(expected, list):
        assert found == {"a.jpg": expected}
    else:
        assert not found
        (item,) = left_out.values()
        assert f"{item.reason}: {item.detail}".startswith(expected)


def test_a_list_in_place_of_an_object_is_shown(tmp_path):
    for number in range(6):
        meta = [{"SourceFile": f"{number}.jpg", "Description": f"number {number}"}]
        _write(tmp_path, {f"{number}.jpg": _PICTURE, f"{number}.jpg.json": meta})
    said = r"unread JSON file 6; the first is 0.jpg \(it is a list, not an object: \[{'SourceFile'"
    with pytest.raises(UnexpectedFilesError, match=said):
        prepare(tmp_path)


def test_a_named_key_decides(tmp_path):
    _write(tmp_path, {"a.jpg": _PICTURE, "a.json": {"words": "one", "text": "x"}, "a.txt": "two"})
    assert _read(tmp_path, captions=("words",))[0] == {"a.jpg": ["one"]}
    assert _read(tmp_path, captions=("txt",))[0] == {"a.jpg": ["two"]}
    assert _read(tmp_path)[0] == {"a.jpg": ["two"]}


@pytest.mark.parametrize(
    ("text", "captions", "expected"),
    [
        ("one\n", ["one"], ["one"]),
        ("one  dog\n", ["one dog", "two"], ["one dog", "two"]),
        ("one\ntwo", ["two"], ["one", "two"]),
        ("one\ntwo", ["one\ntwo"], ["one\ntwo"]),
        ("one", ["two"], None),
        ("one\nthree", ["one", "two"], None),
    ],
)
def test_text_and_json_files_must_agree(tmp_path, text, captions, expected):
    _write(tmp_path, {"a.jpg": _PICTURE, "a.txt": text, "a.json": {"captions": captions}})
    found, left_out = _read(tmp_path)
    if expected is None:
        assert not found
        assert left_out["a.jpg"].reason == "text and JSON file differ"
        assert repr(captions[0]) in left_out["a.jpg"].detail
    else:
        assert found == {"a.jpg": expected}


def test_folders_in_a_shard_are_splits_like_those_beside_it(tmp_path):
    for shard in ("all.tar", "dev.tar"):
        with tarfile.open(tmp_path / shard, "w") as archive:
            for name in ("train/1.jpg", "test-images/1.jpg", "x/1.jpg", "1.jpg"):
                member = tarfile.TarInfo(name)
                member.size = len(_PICTURE)
                archive.addfile(member, io.BytesIO(_PICTURE))
    items = list(FetchedLayout(tmp_path, ReadingOptions()).pictures())
    assert [item.split for item in items if not isinstance(item, LeftOut)] == [
        *("train", "test", "", ""),
        *("train", "test", "validation", "validation"),
    ]


def test_shards_and_loose_images_are_both_read(tmp_path):
    _write(tmp_path, {"deep/er/a.jpg": _PICTURE, "deep/er/a.txt": "of a"})
    for path in (tmp_path / "00000.tar", tmp_path / "deep" / "TRAIN.TAR"):
        with tarfile.open(path, "w") as archive:
            for name, content in {"1.jpg": _PICTURE, "1.txt": b"of 1", "1.cls": b"3"}.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    layout = FetchedLayout(tmp_path, ReadingOptions())
    found, left_out = _read(tmp_path)
    assert found == {
        "00000.tar:1.jpg": ["of 1"],
        "deep/TRAIN.TAR:1.jpg": ["of 1"],
        "deep/er/a.jpg": ["of a"],
    }
    names = ("00000.tar:1.cls", "deep/TRAIN.TAR:1.cls")
    assert _reasons(left_out) == dict.fromkeys(names, "unread ending")
    assert "2 shards" in layout.describe()["files"]
    assert "1 images" in layout.describe()["files"]


def _tar(path, contents):
    with tarfile.open(path, "w") as archive:
        for name, content in contents.items():
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_json_files_name_splits_and_pictures(tmp_path):
    meta = {"caption": "one", "split": "val", "file_name": "COCO_0001.jpg"}
    contents = {"a.jpg": _PICTURE, "a.json": meta, "b.jpg": b"b", "b.json": {"caption": "two"}}
    _tar(tmp_path / "test-0.tar", contents)
    items = {i.name: i for i in FetchedLayout(tmp_path, ReadingOptions()).pictures()}
    assert {name: i.split for name, i in items.items()} == {
        "test-0.tar:a.jpg": "validation",
        "test-0.tar:b.jpg": "test",
    }
    for options, message in (({}, "the split 'holdout' is not known"), ({"split": "none"}, "")):
        contents["a.json"] = meta | {"split": "holdout"}
        _tar(tmp_path / "test-0.tar", contents)
        if message:
            with pytest.raises(UnexpectedFilesError, match=message):
                _read(tmp_path, **options)
        else:
            assert _read(tmp_path, **options)[0]["test-0.tar:a.jpg"] == ["one"]
    contents["a.json"] = {"caption": "one", "file_name": "photos/b.jpg"}
    _tar(tmp_path / "test-0.tar", contents)
    found, left_out = _read(tmp_path)
    assert list(found) == ["test-0.tar:b.jpg"]
    bad = left_out["test-0.tar:a.jpg"]
    assert (bad.reason, bad.detail, bad.is_record) == (
        "JSON file names another picture",
        "the file_name in a.json is b.jpg",
        True,
    )
