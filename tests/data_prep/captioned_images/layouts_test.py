"""What is read from each layout, and what is listed instead."""

import io
import json
import tarfile

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import ReadingOptions
from data_prep.captioned_images.layouts import find_layout
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import UnexpectedFilesError

_PICTURE = b"a picture"


def _splits(folder, **options):
    items = find_layout(folder, ReadingOptions(**options)).read()
    return {i.name: i.split for i in items if not isinstance(i, LeftOut)}


def _write(folder, contents):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def _tar(path, contents):
    with tarfile.open(path, "w") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_names_are_whole_paths_or_ends_of_one_path(tmp_path):
    names = [
        "cats/1.jpg",
        "dogs/1.jpg",
        "dogs/deep/2.JPG",
        "A.jpg",
        "a.jpg",
        "caf\u00e9.jpg",
        "1.png",
    ]
    _write(tmp_path, dict.fromkeys(names, _PICTURE))
    given = {
        "cats/1.jpg": "cats/1.jpg",
        "deep\\2.jpg": "dogs/deep/2.JPG",
        "a.jpg": "a.jpg",
        "cafe\u0301.JPG": "caf\u00e9.jpg",
        "./1.png": "1.png",
        "birds/1.jpg": "no image",
        "1.jpg": "ambiguous name",
        "../1.png": "no image",
        "/etc/1.png": "no image",
    }
    rows = [["image", "caption"], *([name, f"of {name}"] for name in given)]
    folders.write_csv(tmp_path / "all.csv", rows)
    found, left_out = folders.read_layout(tmp_path)
    for line, (name, expected) in enumerate(given.items(), 2):
        if " " in expected:
            assert left_out[f"all.csv line {line}"] == expected
        else:
            assert found[expected] == [f"of {name}"]


def test_the_images_of_a_table_are_below_its_folder(tmp_path):
    """A lost picture is not replaced by that of another table with the same name."""
    for place in ("cats", "dogs"):
        folders.write_images(tmp_path, folders.FEW, place)
        rows = [[folders.name(n), f"{place} {n}"] for n in folders.FEW]
        folders.write_csv(tmp_path / place / "all.csv", [["image", "caption"], *rows])
    (tmp_path / "cats/p000.png").unlink()
    found, left_out = folders.read_layout(tmp_path)
    assert found.keys() == {"cats/p001.png", "cats/p002.png", *(f"dogs/p00{n}.png" for n in "012")}
    assert left_out["all.csv line 2"] == "no image"
    assert all(texts == [f"{name[:4]} {int(name[6:9])}"] for name, texts in found.items())
    for path in tmp_path.glob("*/all.csv"):
        path.unlink()
    for split, place in {"train": "cats", "val": "dogs"}.items():
        (tmp_path / place).rename(tmp_path / split)
        rows = [[f"{split}/{folders.name(n)}", f"{split} {n}"] for n in folders.FEW]
        folders.write_csv(tmp_path / f"{split}.csv", [["image", "caption"], *rows])
    assert folders.read_layout(tmp_path)[1] == {"train.csv line 2": "no image"}
    assert _splits(tmp_path)["val/p000.png"] == "validation"


def test_cells_of_captions(tmp_path):
    cells = {
        "one": ["one"],
        ("one", "two", "", None, "one "): ["one", "two"],
        '["one", "two"]': ["one", "two"],
        "[a dog] on a couch": ["[a dog] on a couch"],
        "['one' 'two']": "caption is no text",
        7: "caption is no text",
        "#REF!": "empty caption",
    }
    _write(tmp_path, {f"{n}.jpg": _PICTURE for n in range(len(cells))})
    rows = [{"image": f"{n}.jpg", "caption": each} for n, each in enumerate(cells)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, left_out = folders.read_layout(tmp_path)
    for number, expected in enumerate(cells.values()):
        if isinstance(expected, str):
            assert left_out[f"all.jsonl line {number + 1}"] == expected
        else:
            assert found[f"{number}.jpg"] == expected


def test_quotes_belong_to_cells_with_commas_and_to_the_text_with_tabs(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    texts = ['a "big", brown\ndog', '"quoted"', "one; two"]
    rows = [[folders.name(n), text] for n, text in enumerate(texts)]
    folders.write_csv(tmp_path / "all.csv", [["image", "caption"], *rows, ["", ""]])
    assert list(folders.read_layout(tmp_path)[0].values()) == [[text] for text in texts]
    (tmp_path / "all.csv").unlink()
    lines = ["image\tcaption", *(f"{folders.name(n)}\t{texts[n]}" for n in (1, 2))]
    (tmp_path / "all.tsv").write_text("\n".join([*lines, 'p000.png\t"two', 'lines"']))
    found, left_out = folders.read_layout(tmp_path)
    assert found["images/p001.png"] == ['"quoted"']
    assert left_out["all.tsv line 5"] == "malformed row"


def test_captions_in_the_format_of_coco(tmp_path):
    folders.write_images(tmp_path, [*folders.FEW, 3, 4])
    path = tmp_path / "captions_val2017.json"
    content = folders.coco()
    content["annotations"].insert(0, {"image_id": 11, "caption": "first in the file"})
    content["images"][2]["id"] = 12.0
    path.write_text(json.dumps(content))
    found, left_out = folders.read_layout(tmp_path)
    expected = folders.captions_at("images/")
    expected["images/p001.png"].insert(0, "first in the file")
    assert found == expected
    assert left_out == {
        "captions_val2017.json annotation 4": "no image",
        "captions_val2017.json image 13": "empty caption",
        "images/p003.png": "not used",
        "images/p004.png": "not used",
    }


def test_texts_beside_pictures_are_read_and_everything_else_is_listed(tmp_path):
    _write(
        tmp_path,
        {
            "a.jfif": _PICTURE,
            "a.txt": "of a\n\nagain a\n",
            "b/B.JPEG": _PICTURE,
            "b/B.JPEG.txt": b"\xef\xbb\xbfof b",
            "22.05.jpg": _PICTURE,
            "22.05.json": {"captions": ["of 22.05", "in May"]},
            "c.jpg": _PICTURE,
            "c.txt": "of c",
            "c.json": {"caption": "of  c"},
            "d.jpg": _PICTURE,
            "d.txt": "one",
            "d.json": {"caption": "two"},
            "e.jpg": _PICTURE,
            "e.png": _PICTURE,
            "e.txt": "of which?",
            "f.jpg": _PICTURE,
            "f.txt": "one",
            "f.jpg.txt": "two",
            "g.jpg": _PICTURE,
            "h.jpg": _PICTURE,
            "h.json": [1],
            "phone.heic": _PICTURE,
            "phone.txt": "of a phone",
            "orphan.txt": "whose?",
            "info.json": {"name": "my pets"},
            "video.mp4": b"",
            "README.md": "",
            ".git/HEAD": "",
            "Thumbs.db": b"",
        },
    )
    found, left_out = folders.read_layout(tmp_path)
    assert found == {
        "a.jfif": ["of a", "again a"],
        "b/B.JPEG": ["of b"],
        "22.05.jpg": ["of 22.05", "in May"],
        "c.jpg": ["of  c"],
    }
    assert left_out == {
        **dict.fromkeys(("d.jpg", "e.jpg", "e.png", "f.jpg", "h.jpg"), "unread text"),
        "g.jpg": "empty caption",
        "phone.heic": "unread ending",
        "phone.txt": "no image",
        "orphan.txt": "no image",
        "info.json": "unread ending",
        "video.mp4": "unread ending",
        ".git": "skipped folder",
    }
    assert folders.read_layout(tmp_path, captions=("caption",))[0]["d.jpg"] == ["two"]


def test_shards_and_loose_images_are_both_read(tmp_path):
    _write(tmp_path, {"deep/er/a.jpg": _PICTURE, "deep/er/a.txt": "of a"})
    sample = {"1.jpg": _PICTURE, "1.txt": b"of 1", "1.cls": b"3"}
    meta = json.dumps({"caption": "of 2", "split": "val"}).encode()
    _tar(tmp_path / "00000.tar", sample | {"2.jpg": _PICTURE, "2.json": meta})
    _tar(tmp_path / "deep" / "TRAIN.TAR", sample | {"test/1.jpg": _PICTURE, "test/1.txt": b"of x"})
    found, left_out = folders.read_layout(tmp_path)
    assert found == {
        "00000.tar:1.jpg": ["of 1"],
        "00000.tar:2.jpg": ["of 2"],
        "deep/TRAIN.TAR:1.jpg": ["of 1"],
        "deep/TRAIN.TAR:test/1.jpg": ["of x"],
        "deep/er/a.jpg": ["of a"],
    }
    names = ("00000.tar:1.cls", "deep/TRAIN.TAR:1.cls")
    assert left_out == dict.fromkeys(names, "unread ending")
    assert list(_splits(tmp_path).values()) == ["", "validation", "train", "test", ""]
    assert "2 shards; 1 images" in find_layout(tmp_path, ReadingOptions()).files


def _two_layouts(folder):
    folders.wide_csv(folder, folders.FEW)
    (folder / "images/p001.txt").write_text("of 1")


def _other_columns(folder):
    folders.write_csv(folder / "all.csv", [["Bild", "caption"], ["p001.png", "one"]])


def _two_splits(folder):
    folders.write_images(folder, folders.FEW)
    rows = [["p001.png", "one", "train"], ["p001.png", "two", "dev"]]
    folders.write_csv(folder / "all.csv", [["image", "caption", "split"], *rows])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            _two_layouts,
            r"two places: all.csv \(a table of file names and captions\) and im",
        ),
        (
            _other_columns,
            "one column image or file_name, .*columns are 'Bild', 'caption'. Rename",
        ),
        (_two_splits, "line 3: images/p001.png is in the split 'validation', but in 'train' above"),
    ],
)
def test_a_folder_that_has_no_single_reading_is_refused(tmp_path, write, message):
    write(tmp_path)
    with pytest.raises(UnexpectedFilesError, match=message):
        folders.read_layout(tmp_path)
