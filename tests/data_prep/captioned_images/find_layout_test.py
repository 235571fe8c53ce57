"""Folders with one layout among other files, and with several, which is an error."""

import io
import json
import tarfile

import pyarrow
import pyarrow.parquet
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.lost_records import count_lost
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.survey import look_at_part, survey
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import BadImageError, UnexpectedFilesError


def _rows():
    return [{"file_name": folders.name(n), "text": f"caption {n}"} for n in folders.FEW]


def _json_lines(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows()))


def _csv(path):
    folders.write_csv(path, [["file_name", "text"], *(row.values() for row in _rows())])


@pytest.mark.parametrize("place", ["train/", "data/train/", "a/b/c/d/"])
def test_a_table_beside_its_images_at_any_depth(tmp_path, place):
    folders.write_images(tmp_path, folders.FEW, place)
    _json_lines(tmp_path / place / "metadata.jsonl")
    assert folders.read_layout(tmp_path) == (folders.captions_at(place), {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dataset_infos.json", {"default": {"description": "", "features": {}}}),
        ("dataset_dict.json", {"splits": ["train", "test"]}),
        ("dataset_info.json", {"citation": ""}),
        ("state.json", {"_data_files": [{"filename": "data.arrow"}]}),
        ("readme.json", {"p000.png": "not a caption"}),
        ("images/README.txt", "about these images"),
    ],
)
def test_descriptions_of_tools_are_known(tmp_path, name, content):
    folders.write_images(tmp_path, folders.FEW)
    _json_lines(tmp_path / "metadata.jsonl")
    (tmp_path / name).write_text(json.dumps(content))
    assert folders.read_layout(tmp_path) == (folders.captions_at("images/"), {})


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("info.json", {"name": "my pets", "license": "CC0"}, "unread file"),
        ("dataset_card.json", {"images": 3}, "unread file"),
        ("instances_train.json", folders.coco() | {"annotations": [{"bbox": []}]}, "unread file"),
        ("orphan.json", {"caption": "whose?"}, "unread file"),
        ("orphan.txt", "number 7 shows a thing", "unread file"),
        ("images/p007.txt", "number 7, shows; a | thing", "unread file"),
        ("captions.png", "a cover", "in no row of a table"),
        ("metadata.jpg", "a cover", "in no row of a table"),
        ("classes.csv", "id,name\n1,dog\n", "unread file"),
        ("video.mp4", "", "unread ending"),
        ("images/ratings.csv", "left,right,score\n", "unread file"),
    ],
)
@pytest.mark.parametrize("write", [_csv, _json_lines])
def test_other_files_hide_nothing_and_are_listed(tmp_path, write, name, content, reason):
    folders.write_images(tmp_path, folders.FEW)
    write(tmp_path / ("captions.csv" if write is _csv else "metadata.jsonl"))
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text)
    assert folders.read_layout(tmp_path) == (folders.captions_at("images/"), {name: reason})


def test_broken_links_are_listed(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    _csv(tmp_path / "all.csv")
    names = ("more.csv", "a.zip", "images/b.jpg", "notes.txt", "c.heic", "data.parquet", "folder")
    for name in names:
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    assert folders.read_layout(tmp_path) == (
        folders.captions_at("images/"),
        dict.fromkeys(names, "broken link"),
    )


def test_a_broken_link_beside_its_text_is_one_lost_picture(tmp_path):
    for number in range(8):
        (tmp_path / folders.name(number)).write_bytes(folders.picture(number))
        (tmp_path / f"p{number:03d}.txt").write_text(f"caption {number}")
    (tmp_path / "p007.png").unlink()
    (tmp_path / "p007.png").symlink_to("nowhere")
    layout = find_layout(tmp_path, ReadingOptions())
    found = survey(look_at_part(layout, part) for part in layout.parts())
    assert found.left_out == {"broken link": 1}
    assert count_lost(layout, found) == {"pictures": (1, 8)}


def test_an_orphan_of_text_files_is_no_table(tmp_path):
    folders.write_images(tmp_path, folders.FEW, ".")
    for number in (*folders.FEW, 7):
        text = json.dumps({"caption": f"caption {number}"})
        (tmp_path / folders.name(number)).with_suffix(".json").write_text(text)
    (tmp_path / "info.json").write_text(json.dumps({"name": "my pets", "license": "CC0"}))
    left_out = {"p007.json": "no image", "info.json": "unread file"}
    assert folders.read_layout(tmp_path) == (folders.captions_at(""), left_out)


def test_a_text_beside_an_image_may_be_the_table_of_others(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    (tmp_path / "captions.png").write_bytes(folders.picture(9))
    _csv(tmp_path / "captions.txt")
    with pytest.raises(UnexpectedFilesError, match="captions in two places: captions.txt .*with"):
        find_layout(tmp_path, ReadingOptions())
    found = folders.read_layout(tmp_path, table="captions.txt")
    assert found == (folders.captions_at("images/"), {"captions.png": "in no row of a table"})


def _parquet(path, **more):
    rows = [
        {"image": {"bytes": folders.picture(n)}, "caption": f"caption {n}"} for n in folders.FEW
    ]
    rows = [row | {name: row["image"]["bytes"] for name in more} for row in rows]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _sidecar(path):
    path.with_name("p000.txt").write_text("caption 0")
    path.with_name("p000.png").write_bytes(folders.picture(0))


def _shard(path):
    folders.web_dataset(path.parent, folders.FEW)


def _coco_file(path):
    path.with_name("captions.json").write_text(json.dumps(folders.coco()))


def _copy(path):
    _json_lines(path.with_name("all.jsonl"))


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (_sidecar, r"p000.png with p000.txt"),
        (_shard, r"00000.tar with 00000.png and 00000.txt"),
        (_coco_file, r"captions.json \(COCO's format\)"),
        (_copy, r"all.jsonl"),
        (lambda path: _parquet(path.with_name("data.parquet")), r"data.parquet \(a table with the"),
    ],
    ids=["text", "shard", "coco", "copy", "parquet"],
)
def test_two_layouts_are_an_error_that_shows_both(tmp_path, other, shown):
    folders.write_images(tmp_path, folders.FEW)
    table = tmp_path / "all.csv"
    _csv(table)
    other(table)
    with pytest.raises(UnexpectedFilesError, match="captions in two places") as error:
        find_layout(tmp_path, ReadingOptions())
    for part in (shown, r"all.csv", r'\{"table": "'):
        error.match(part)
    found, _ = folders.read_layout(tmp_path, table="all.csv")
    assert list(found.values()) == [[f"caption {n}"] for n in folders.FEW]


def test_a_shard_beside_a_table_is_another_layout_if_it_has_captions(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    _csv(tmp_path / "all.csv")
    for key in ("license", "caption"):
        with tarfile.open(tmp_path / "images.tar", "w") as archive:
            for n in folders.FEW:
                meta = json.dumps({key: f"caption {n}"}).encode()
                for ending, content in {".png": folders.picture(n), ".json": meta}.items():
                    member = tarfile.TarInfo(folders.name(n).replace(".png", ending))
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        if key == "license":
            left_out = {"images.tar": "unread ending"}
            assert folders.read_layout(tmp_path) == (folders.captions_at("images/"), left_out)
    with pytest.raises(UnexpectedFilesError, match="images.tar with p000.png and p000.json"):
        find_layout(tmp_path, ReadingOptions())


def test_pictures_in_an_archive_are_missing(tmp_path):
    _csv(tmp_path / "all.csv")
    (tmp_path / "images.zip").write_bytes(b"PK\5\6" + bytes(18))
    pictures = [i for i in find_layout(tmp_path, ReadingOptions()).pictures()]
    with pytest.raises(BadImageError, match="no image"):
        pictures[0].read()
    assert pictures[-1].where == "images.zip"


def test_tables_can_be_passed_over(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    _csv(tmp_path / "all.csv")
    (tmp_path / "images" / "p000.txt").write_text("another caption")
    found, left_out = folders.read_layout(tmp_path, table="none")
    assert found["images/p000.png"] == ["another caption"]
    assert left_out == {"all.csv": "unread file"}


def test_two_columns_of_images_are_an_error(tmp_path):
    _parquet(tmp_path / "data.parquet", jpg=True)
    with pytest.raises(UnexpectedFilesError, match="images in the columns 'image' and 'jpg'"):
        find_layout(tmp_path, ReadingOptions())
    found, _ = folders.read_layout(tmp_path, image="jpg")
    assert list(found.values()) == [[f"caption {n}"] for n in folders.FEW]


def test_columns_without_a_name_are_not_read(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    header = ["", "file_name", "text", "", ""]
    rows = [[str(n), *row.values(), "", ""] for n, row in enumerate(_rows())]
    folders.write_csv(tmp_path / "all.csv", [header, *rows])
    layout = find_layout(tmp_path, ReadingOptions())
    assert layout.describe()["columns"] == "image: file_name; captions: text"
    found, _ = folders.read_layout(tmp_path)
    assert list(found.values()) == [[f"caption {n}"] for n in folders.FEW]


def test_captions_in_an_archive_of_another_kind(tmp_path):
    (tmp_path / "pets.zip").write_bytes(b"PK\5\6" + bytes(18))
    with pytest.raises(UnexpectedFilesError, match="images but no captions.*unpack pets.zip"):
        find_layout(tmp_path, ReadingOptions())


def test_many_texts_that_are_no_tables(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    (tmp_path / "texts").mkdir()
    for number in range(20):
        (tmp_path / "texts" / f"n{number:03d}.txt").write_text(f"caption {number}")
    with pytest.raises(UnexpectedFilesError, match=r"n000.txt .*n002.txt .*; and 17 more files$"):
        find_layout(tmp_path, ReadingOptions())


def test_a_lost_image_is_not_replaced_by_that_of_another_table(tmp_path):
    """Tables beside images of the same names."""
    for place in ("cats", "dogs"):
        folders.write_images(tmp_path, folders.FEW, place)
        rows = [[folders.name(n), f"{place} {n}"] for n in folders.FEW]
        folders.write_csv(tmp_path / place / "all.csv", [["image", "caption"], *rows])
    lost = tmp_path / "cats" / folders.name(folders.FEW[0])
    lost.unlink()
    found = find_layout(tmp_path, ReadingOptions()).pictures()
    captions = {item.name: item.captions for item in found if not isinstance(item, LeftOut)}
    assert captions.pop(lost.name) == (f"cats {folders.FEW[0]}",)
    assert f"cats/{lost.name}" not in captions
    assert all(texts == (f"{name[:4]} {int(name[6:9])}",) for name, texts in captions.items())
    assert len(captions) == 2 * len(folders.FEW) - 1


def test_images_with_captions_in_several_tables_are_told(tmp_path):
    """Two versions of a table are read as one table, since they might be its parts."""
    folders.write_images(tmp_path, folders.FEW)
    _csv(tmp_path / "new.csv")
    assert "several" not in find_layout(tmp_path, ReadingOptions()).describe()["files"]
    rows = [[folders.name(n), f"of {n}"] for n in (*folders.FEW[:2], 7, 7)]
    folders.write_csv(tmp_path / "old.csv", [["file_name", "text"], *rows])
    said = find_layout(tmp_path, ReadingOptions()).describe()["files"]
    assert said.startswith("new.csv, old.csv (7 rows; 2 images have captions in several tables)")


def test_tables_whose_names_look_like_splits(tmp_path):
    for number, name in enumerate(("mytrain.csv", "test_final2.csv")):
        folders.write_csv(tmp_path / name, [["file_name", "text"], [f"{number}.png", "a dog"]])
    folders.write_images(tmp_path, folders.FEW)
    find_layout(tmp_path, ReadingOptions())
    (tmp_path / "test_final2.csv").rename(tmp_path / "holdtest.csv")
    with pytest.raises(
        UnexpectedFilesError, match="mytrain.csv and holdtest.csv may be splits, or p"
    ):
        find_layout(tmp_path, ReadingOptions())
    find_layout(tmp_path, ReadingOptions(split="none"))


def _tables(folder):
    for split in ("train", "val"):
        _csv(folder / f"{split}.csv")


def _karpathy(folder):
    images = [
        {"filename": folders.name(n), "split": split, "sentences": [{"raw": f"caption {n}"}]}
        for split in ("train", "val")
        for n in folders.FEW
    ]
    (folder / "all.json").write_text(json.dumps({"images": images}))


@pytest.mark.parametrize("write", [_tables, _karpathy])
def test_an_image_of_two_splits_can_only_be_split_by_content(tmp_path, write):
    write(tmp_path)
    folders.write_images(tmp_path, folders.FEW)
    with pytest.raises(UnexpectedFilesError, match='in only one split, or split .*"split": "none"'):
        list(find_layout(tmp_path, ReadingOptions()).pictures())
    pictures = find_layout(tmp_path, ReadingOptions(split="none")).pictures()
    found = [each for each in pictures if not isinstance(each, LeftOut)]
    assert [(len(each.captions), each.split) for each in found] == [(1, "")] * len(folders.FEW)


def test_texts_in_another_folder_than_their_images(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    (tmp_path / "captions").mkdir()
    for number in folders.FEW:
        text = (tmp_path / "captions" / folders.name(number)).with_suffix(".txt")
        text.write_text("a dog, a cat")
    with pytest.raises(
        UnexpectedFilesError,
        match="such as captions/p000.txt for images/p000.png: put every text into the folder of",
    ):
        find_layout(tmp_path, ReadingOptions())


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    (tmp_path / "captions.xlsx").write_bytes(b"PK")
    with pytest.raises(UnexpectedFilesError, match="or save captions.xlsx as CSV"):
        find_layout(tmp_path, ReadingOptions())
