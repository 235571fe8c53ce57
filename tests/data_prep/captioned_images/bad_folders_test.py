"""Faulty user folders give a clear error message, or a row in the list of left-out items."""

import json
import zlib

import pytest

from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import NUMBERS, prepare
from xmodal.core.errors import UnexpectedFilesError


def _table(folder, rows, header=("image", "caption")):
    folders.write_images(folder, NUMBERS)
    folders.write_csv(folder / "all.csv", [list(header), *rows])


def no_caption_column(folder):
    _table(folder, folders.rows(), ("image", "label_of"))


def leaving_the_folder(folder):
    folders.write_images(folder.parent, [77], "elsewhere")
    _table(folder, folders.rows(["../elsewhere/p077.png", "a caption"]))


def absolute_path(folder):
    _table(folder, folders.rows(["/etc/p077.png", "a caption"]))


def links(folder):
    _table(folder, [["https://a.b/1.jpg", "a caption"]])


def one_image(folder):
    folders.wide_csv(folder, [3])


def two_splits(folder):
    rows = [[folders.name(n), f"caption {n}", "train"] for n in NUMBERS]
    _table(folder, [*rows, [folders.name(3), "another", "test"]], ("image", "caption", "split"))


def unknown_split(folder):
    rows = [[folders.name(n), f"caption {n}", "fold 3"] for n in NUMBERS]
    _table(folder, rows, ("image", "caption", "split"))


def some_without_a_split(folder):
    rows = [[folders.name(n), f"caption {n}", "train" if n else ""] for n in NUMBERS]
    _table(folder, rows, ("image", "caption", "split"))


def only_a_test_split(folder):
    folders.write_images(folder, NUMBERS)
    folders.write_csv(folder / "all_test.csv", [["image", "caption"], *folders.rows()])


def only_images(folder):
    folders.write_images(folder, NUMBERS)


def only_text(folder):
    (folder / "notes.md").write_text("nothing")


def two_tables(folder):
    _table(folder, folders.rows())
    folders.write_csv(folder / "more.csv", [["photo", "text"], *folders.rows()])


def two_columns_of_one_name(folder):
    folders.write_images(folder, NUMBERS)
    header = ["image", "caption", "caption"]
    lines = [[*row, "another"] for row in folders.rows()]
    folders.write_csv(folder / "all.csv", [header, *lines])


def note_to_excel(folder):
    _table(folder, [["image", "caption"], *folders.rows()], ["sep=,"])


def utf_16(folder):
    folders.write_images(folder, NUMBERS)
    folders.write_csv(
        folder / "all.csv", [["image", "caption"], *folders.rows()], encoding="utf-16"
    )


def latin_1(folder):
    lines = [["image", "caption"], *([name, f"café {text}"] for name, text in folders.rows())]
    folders.write_images(folder, NUMBERS)
    folders.write_csv(folder / "all.csv", lines, encoding="latin-1")


def latin_1_header(folder):
    lines = [["image", "légende"], *folders.rows()]
    folders.write_images(folder, NUMBERS)
    folders.write_csv(folder / "all.csv", lines, encoding="latin-1")


def latin_1_texts(folder):
    folders.write_images(folder, NUMBERS, "")
    for number in NUMBERS:
        (folder / folders.name(number)).with_suffix(".txt").write_text("café", "latin-1")


def column_of_links(folder):
    _table(folder, [["https://a.b/1.jpg", "a caption"]], header=("Image URL", "caption"))


def classes(folder):
    for place in ("cats", "dogs"):
        folders.write_images(folder / place, NUMBERS[:3])


def broken_json(folder):
    folders.json_lines(folder, NUMBERS)
    with (folder / "metadata.jsonl").open("a") as file:
        file.write('\n{"file_name": "p0')


def broken_part(folder):
    folders.json_lines(folder, NUMBERS)
    (folder / "more.jsonl").write_text('{"file_name": "p0')


def lists_as_rows(folder):
    folders.write_images(folder, NUMBERS)
    (folder / "all.json").write_text(json.dumps([[folders.name(n), "a caption"] for n in NUMBERS]))


def number_as_caption(folder):
    folders.json_by_image(folder, NUMBERS)
    content = json.loads((folder / "captions.json").read_text()) | {folders.name(3): 7}
    (folder / "captions.json").write_text(json.dumps(content))


def mostly_missing(folder):
    _table(folder, folders.rows(*([f"lost{n}.png", "a caption"] for n in range(40))))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (no_caption_column, r"all.csv has no caption column .* 'image', 'label_of': rename one"),
        (leaving_the_folder, r"names the image '../elsewhere/p077.png', which is not in"),
        (absolute_path, r"names the image '/etc/p077.png', which is not in .*: copy or link"),
        (links, r"line 2: https://a.b/1.jpg is a url; download the images first"),
        (column_of_links, r"all.csv has the column 'Image URL' but none of image files; download"),
        (classes, r"images but no captions; .*; if the folders are classes, build --dataset=class"),
        (one_image, r"1 usable picture for training .*; training, .* need at least 6"),
        (two_splits, r"line 32: images/p003.png is in the split 'test', but in 'train' above"),
        (
            unknown_split,
            r"all.csv line 2: the split 'fold 3' is not known; found: 'fold 3' 30; known",
        ),
        (some_without_a_split, r"1 of 30 pictures have no split; the first is images/p000.png"),
        (only_a_test_split, r"found: test 30.*, or split by content with .\"split\": \"none\""),
        (only_images, r"has images but no captions; add a table with the columns `image`"),
        (only_text, r"has neither images nor captions"),
        (two_tables, r"all.csv and .*more.csv both have images and captions"),
        (two_columns_of_one_name, r"all.csv has several columns 'caption', of which only one"),
        (note_to_excel, r"all.csv starts with '\"sep=,\"', a note to Excel; delete the line"),
        (utf_16, r"all.csv is UTF-16 or not text; save it as UTF-8"),
        (latin_1, r"all.csv line 2 \(invalid .* at byte 12 of the line; save the file as UTF-8\)"),
        (latin_1_header, r"all.csv line 1, its header, is not UTF-8; save the file as UTF-8"),
        (latin_1_texts, r"not UTF-8 30 \(save the file as UTF-8\); the first is p000.png"),
        (broken_json, r"line 31 cannot be read as JSON"),
        (
            lists_as_rows,
            r"all.json entry 0: malformed row, not a JSON object: \['p000.png', 'a cap",
        ),
        (number_as_caption, r"captions.json is neither .* by image: 'p003.png' has 7$"),
        (broken_part, r"more.jsonl line 1 cannot be read as JSON"),
        (
            mostly_missing,
            r"40 of 70 pictures cannot be used, more than 0.1 of them. Not used: no image 40; "
            r"the first is lost0.png .*all.csv line 32, column image; correct "
            r".*--allow_missing(.|\n)*no image 40",
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_bad_folders_end_in_one_sentence(write, message, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder)
    with pytest.raises(UnexpectedFilesError, match=message):
        prepare(folder)
    left = {path.name for path in (tmp_path / "files_tfds").rglob("*") if path.is_file()}
    pages = {"left_out.csv", "preview.html"}  # which the error or the summary names
    assert left <= pages | {"metadata.json"}, "nothing is left behind"
    assert bool(left) == bool(left & pages) == any((tmp_path / "files_tfds" / "own").iterdir())


def test_ten_images_are_enough(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    folders.long_tsv(folder, NUMBERS[:10])
    sizes = {split: info.num_examples for split, info in prepare(folder).info.splits.items()}
    assert sum(sizes.values()) == 10
    assert min(sizes.values()) >= 2


def test_the_notes_of_macos_beside_files_are_passed_over(tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    for number in NUMBERS:
        (folder / folders.name(number)).write_bytes(folders.picture(number))
        (folder / folders.name(number)).with_suffix(".txt").write_text(f"caption {number}")
    for path in list(folder.iterdir()):
        path.with_name(f"._{path.name}").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X        ")
    sizes = {split: info.num_examples for split, info in prepare(folder).info.splits.items()}
    assert sum(sizes.values()) == len(NUMBERS)
    assert "left out  nothing" in capfd.readouterr().err


def _bomb():
    """A PNG of 60,000 by 60,000 pixels in few bytes; only its header is read."""
    encoded = bytearray(folders.picture(1))
    encoded[16:24] = (60_000).to_bytes(4, "big") * 2
    encoded[29:33] = zlib.crc32(encoded[12:29]).to_bytes(4, "big")
    return bytes(encoded)


def test_single_bad_items_are_left_out_counted_and_listed(tmp_path, capfd):
    folder = tmp_path / "files"
    (folder / "images").mkdir(parents=True)
    folders.write_images(folder, NUMBERS)
    odd = {
        "BIG.JPG": folders.picture(101, (8000, 5000), "JPEG"),  # 40 megapixels
        "cmyk.jpeg": folders.picture(102, kind="JPEG", mode="CMYK"),
        "web.WebP": folders.picture(103, kind="WEBP"),
        "bomb.png": _bomb(),
        "cut.jpg": folders.picture(104, (400, 300), "JPEG")[:900],
        "text.png": b"no picture",
    }
    for name, content in odd.items():
        (folder / "images" / name).write_bytes(content)
    rows = [
        *([name.replace("BIG.JPG", "big.jpg"), f"the odd {name}"] for name in odd),
        ["p000.png", "caption 0"],  # a duplicate row
        ["p001.png", ""],
        ["missing.png", "nothing to see"],
        ["p002.png", "Ein Mädchen, 犬, كلب, собака 🐕"],
        ["", "whose image?"],
    ]
    folders.write_csv(folder / "all.csv", [["image", "caption"], *folders.rows(*rows)])
    with pytest.raises(UnexpectedFilesError, match="4 of 37 pictures cannot be used"):
        prepare(folder)
    builder = prepare(folder, min_kept=0.8)
    pictures = {name: texts for name, (_, texts) in folders.stored_pictures(builder).items()}
    assert pictures["images/BIG.JPG"] == ["the odd BIG.JPG"]
    assert {"images/cmyk.jpeg", "images/web.WebP"} <= pictures.keys()
    assert pictures["images/p002.png"][1] == "Ein Mädchen, 犬, كلب, собака 🐕"
    assert len(pictures) == 33
    counts = builder.info.metadata
    left_out, parts = counts["left_out"]["train"], counts["parts"]["train"]
    assert left_out == {
        "too many pixels": 1,
        "truncated image": 1,
        "not an image": 1,
        "no image": 1,
        "no image name": 1,
    }
    assert parts == {"caption appears twice": 1, "empty caption": 1}
    said = capfd.readouterr().err
    for reason, number in (left_out | parts).items():
        assert f"{reason} {number}" in said
    listed = (builder.data_path / "left_out.csv").read_text()
    assert "all.csv line 39,empty caption" in listed
    assert "missing.png,no image" in listed


def test_cells_of_mixed_types_are_left_out_counted_and_listed(tmp_path):
    """JSON lines with strings, lists, numbers and objects as captions, and matching images."""
    folder = tmp_path / "files"
    (folder / "images").mkdir(parents=True)
    folders.write_images(folder, NUMBERS)
    given = {
        "p000.png": "one text",
        "p001.png": ["two", "texts"],
        "p002.png": ["a text", 7, None],
        "p003.png": 3.5,
        "p004.png": {"en": "an object"},
        "p005.png": True,
        "p006.png": None,
        "p007.png": [["a list", "of lists"]],
    }
    rows = [{"image": f"images/{name}", "caption": caption} for name, caption in given.items()]
    rows += [{"image": f"images/{folders.name(n)}", "caption": f"caption {n}"} for n in NUMBERS[8:]]
    rows += [{"image": image, "caption": "whose?"} for image in (None, False, ["images/p000.png"])]
    rows += [{"caption": "no image at all"}, {"image": "images/p008.png"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "all.jsonl").write_text(lines)
    builder = prepare(folder, min_kept=0.5)
    pictures = {name: texts for name, (_, texts) in folders.stored_pictures(builder).items()}
    assert pictures["images/p000.png"] == ["one text"]
    assert pictures["images/p001.png"] == ["two", "texts"]
    assert pictures["images/p002.png"] == ["a text"]
    assert not {f"images/p00{n}.png" for n in range(3, 8)} & pictures.keys()
    assert len(pictures) == len(NUMBERS) - 5
    counts = builder.info.metadata
    # Five images have no string as a caption.
    assert counts["left_out"]["train"] == {"no image name": 4, "no caption": 5}
    assert counts["parts"]["train"] == {"caption is no text": 5, "empty caption": 3}
