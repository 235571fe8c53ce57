"""What of a folder is not used: shares of pictures and of rows, and what a user is told."""

import json
import re
import sys

import pyarrow
import pyarrow.parquet
import pytest

from data_prep import build
from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.lost_records import count_lost, why_lost
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.survey import look_at_part, survey
from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import NUMBERS, prepare
from xmodal.core.errors import UnexpectedFilesError


def _survey(folder):
    layout = find_layout(folder, ReadingOptions())
    return layout, survey(look_at_part(layout, part) for part in layout.parts())


def _write(folder, rows):
    folders.write_images(folder, NUMBERS)
    folders.write_csv(folder / "all.csv", [["image", "caption"], *rows])


def test_rows_are_counted_besides_pictures(tmp_path):
    rows = [[folders.name(n), f"caption {n} {k}"] for n in NUMBERS for k in range(3)]
    rows[0] = ["p000.png"]
    rows[4] = ["", "whose?"]
    rows[8] = ["p002.png", "nan"]
    rows += [["lost.png", f"nothing {k}"] for k in range(3)]
    _write(tmp_path, rows)
    assert count_lost(*_survey(tmp_path)) == {"pictures": (1, 31), "rows": (6, 93)}


def test_entries_of_other_layouts_are_pictures(tmp_path):
    rows = [{"image": {"bytes": folders.picture(n)}, "text": f"caption {n}"} for n in NUMBERS]
    rows[3]["text"] = None
    rows[4]["image"] = {"bytes": b"no picture"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "all.parquet")
    layout, found = _survey(tmp_path)
    assert count_lost(layout, found) == {"pictures": (2, 30)}
    assert (
        "Not used: empty caption 1, no caption 1, not an image 1; the first is all.parquet row 3"
        in why_lost(layout, found)
    )


def _ids_of_pandas(folder):
    (folder / "images").mkdir()
    for n in NUMBERS:
        (folder / "images" / f"{n}.png").write_bytes(folders.picture(n))
    rows = [[f"{n}.0", f"caption {n}"] for n in NUMBERS]
    folders.write_csv(folder / "all.csv", [["image_id", "caption"], *rows])
    return "the first is 0.0 .*all.csv line 2, column image_id; correct"


def _ids_in_parquet(folder):
    _ids_of_pandas(folder)
    (folder / "all.csv").unlink()
    rows = [{"image_id": float(n), "caption": f"caption {n}"} for n in NUMBERS]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "all.parquet")
    return "the first is 0.0 .*all.parquet row 0, column image_id; correct"


def _another_column(folder):
    folders.write_images(folder, NUMBERS)
    rows = [[f"photo of {n}", f"caption {n}"] for n in NUMBERS]
    folders.write_csv(folder / "all.csv", [["image", "caption"], *rows])
    return r"the first is photo of 0 .*all.csv line 2, column image; .*COLUMN"


def _karpathy(folder):
    folders.write_images(folder, NUMBERS)
    images = [
        {"filename": f"COCO_{n}.jpg", "imgid": n, "split": "train"}
        | {"sentences": [{"sentid": n, "raw": f"caption {n}"}]}
        for n in NUMBERS
    ]
    (folder / "dataset_mine.json").write_text(json.dumps({"images": images}))
    return "the first is COCO_0.jpg .*has no COCO_0.jpg.*dataset_mine.json"


def _no_pictures(folder):
    folders.write_csv(folder / "all.csv", [["image", "caption"], ["a.jpg", "a dog"]])
    return "the first is a.jpg .*all.csv line 2, column image; .*0 image files"


def _no_captions(folder):
    _write(folder, [[folders.name(n), ""] for n in NUMBERS])
    lost = "empty caption 30, no caption 30; the first is all.csv line 2"
    return rf"{lost} .*all.csv .*captions: caption"


def _no_names(folder):
    _write(folder, [["", f"caption {n}"] for n in NUMBERS])
    return r"no image name 30; the first is all.csv line 2 \(image is ''\)"


def _lists_of_objects(folder):
    _write(folder, [[folders.name(n), str([{"raw": f"caption {n}"}])] for n in NUMBERS])
    return r"unreadable list 30; the first is all.csv line 2 .*'raw': 'caption 0'.*looks like"


@pytest.mark.parametrize(
    "write",
    [
        *(_ids_of_pandas, _ids_in_parquet, _another_column, _karpathy),
        *(_no_pictures, _no_captions, _no_names, _lists_of_objects),
    ],
    ids=lambda write: write.__name__,
)
def test_without_usable_pictures_the_cause_is_named(write, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    message = write(folder)
    with pytest.raises(UnexpectedFilesError, match=rf"^0 usable pictures for train.*{message}"):
        prepare(folder)


def test_a_build_tells_its_losses_last_and_stops_when_they_are_large(tmp_path, monkeypatch, capsys):
    def run(lost, *flags):
        folder = tmp_path / f"{lost}{len(flags)}"
        folder.mkdir()
        _write(folder, folders.rows(*([f"lost{n}.png", "a caption"] for n in range(lost))))
        arguments = ["--dataset=captioned_images", "--config=images", f"--manual_dir={folder}"]
        monkeypatch.setattr(
            sys, "argv", ["build", *arguments, f"--data_dir={tmp_path / 'tfds'}", *flags]
        )
        build.main()
        return capsys.readouterr().out.strip().split("\n")[-1]

    assert run(0).startswith("test ")
    last = run(3)
    listed = re.fullmatch(r"not used: 9.1% of the pictures, 9.1% of the rows; listed in (.*)", last)
    with open(listed[1], encoding="utf-8") as file:
        assert file.read().count("no image") == 3
    with pytest.raises(SystemExit, match=r"4 of 34 pictures cannot be used, more than 0.1"):
        run(4)
    assert "11.8% of the pictures" in run(4, "--allow_missing")


def test_rows_alone_stop_a_build(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    rows = [[folders.name(n), f"caption {n} {k}"] for n in NUMBERS for k in range(3)]
    _write(folder, [row if n % 9 else row[:1] for n, row in enumerate(rows)])
    with pytest.raises(
        UnexpectedFilesError, match=r"10 of 90 rows cannot be used(.|\n)*left_out.c"
    ):
        prepare(folder)
    assert prepare(folder, min_kept=0.5).info.metadata["lost"]["pictures"] == [0, 30]
