"""What each layout yields, read without preparing a dataset."""

import collections
import json

import pyarrow
import pyarrow.parquet
import pytest

from data_prep.captioned_images.captioned_pictures import CaptionedPicture, split_of_path
from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.options import ReadingOptions
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import BadImageError, UnexpectedFilesError

_NAMES = ["training", "Dev", "test", "valid", "restval", "VAL"]
_SPLITS = ["train", "validation", "test", "validation", "train", "validation"]


def _karpathy(folder, splits):
    images = [
        {
            "filename": folders.name(n),
            "imgid": n,
            "split": split,
            "sentences": [{"sentid": n, "raw": f"caption {n}"}],
        }
        for n, split in enumerate(splits)
    ]
    (folder / "mine.json").write_text(json.dumps({"images": images}))


def _csv(folder, splits):
    rows = [[folders.name(n), f"caption {n}", split] for n, split in enumerate(splits)]
    folders.write_csv(folder / "all.csv", [["image", "caption", "split"], *rows])


def _json_lines(folder, splits):
    lines = [
        json.dumps({"image": folders.name(n), "caption": f"caption {n}", "split": split})
        for n, split in enumerate(splits)
    ]
    (folder / "all.jsonl").write_text("\n".join(lines))


def _parquet(folder, splits):
    rows = [
        {"image": {"bytes": folders.picture(n)}, "caption": f"caption {n}", "split": split}
        for n, split in enumerate(splits)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "all.parquet")


def _pictures(layout):
    return [each for each in layout.pictures() if isinstance(each, CaptionedPicture)]


@pytest.fixture
def folder(tmp_path):
    folders.write_images(tmp_path, range(len(_NAMES)))
    return tmp_path


@pytest.mark.parametrize("write", [_karpathy, _csv, _json_lines, _parquet])
def test_every_reader_knows_the_same_names_of_splits(write, folder):
    write(folder, _NAMES)
    pictures = _pictures(find_layout(folder, ReadingOptions()))
    found = collections.Counter((each.captions[0], each.split) for each in pictures)
    assert found == {(f"caption {n}", split): 1 for n, split in enumerate(_SPLITS)}


@pytest.mark.parametrize("write", [_karpathy, _csv, _json_lines, _parquet])
def test_every_reader_stops_at_an_unknown_split_unless_they_are_ignored(write, folder):
    write(folder, ["train", "fold 3", "train", "eval", "fold 3", ""])
    message = "the split 'fold 3' is not known; found: 'train' 2, 'fold 3' 2, 'eval' 1, '' 1; known"
    with pytest.raises(UnexpectedFilesError, match=rf"(all|mine)\..*: {message}"):
        find_layout(folder, ReadingOptions())
    assert len(_pictures(find_layout(folder, ReadingOptions(split="none")))) == len(_NAMES)


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("dev/a.jpg", "validation"),
        ("data/validation-00000-of-00001.parquet", "validation"),
        ("train/captions_test.csv", "test"),
        ("training_0001.tar", "train"),
        ("val/all.csv", "validation"),
        ("train_val.csv", ""),
        ("trainset.csv", "train"),
        ("val2017.csv", "validation"),
        ("data/train00012.tar", "train"),
        ("train2.csv", ""),
        ("holdout.csv", ""),
    ],
)
def test_splits_in_paths(path, split):
    assert split_of_path(path) == split


def test_names_that_folders_of_splits_repeat(tmp_path):
    for split, numbers in (("train", [0, 1, 2, 3]), ("val", [4, 5])):
        (tmp_path / split).mkdir()
        lines = [["image", "caption"]]
        for place, number in enumerate(numbers):
            (tmp_path / split / f"{place}.png").write_bytes(folders.picture(number))
            lines.append([f"{place}.png", f"picture {number}"])
        folders.write_csv(tmp_path / f"{split}_all.csv", lines)
    (tmp_path / "val" / "1.png").unlink()  # It is none of train.
    items = list(find_layout(tmp_path, ReadingOptions()).pictures())
    found = {i.name: (i.captions[0], i.split) for i in items if isinstance(i, CaptionedPicture)}
    lost = found.pop("val_all.csv: 1.png", None) or found.pop("1.png")
    assert lost == ("picture 5", "validation")
    assert found == {
        **{f"train/{n}.png": (f"picture {n}", "train") for n in range(4)},
        "val/0.png": ("picture 4", "validation"),
    }
    with pytest.raises(BadImageError, match="no image"):
        next(i for i in items if i.captions == ("picture 5",)).read()
