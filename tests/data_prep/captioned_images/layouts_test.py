"""What each layout yields, read without preparing a dataset."""

import collections
import json

import pyarrow
import pyarrow.parquet
import pytest

from data_prep.captioned_images.captioned_pictures import CaptionedPicture, split_of_path
from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.options import ReadingOptions
from data_prep.errors import UnexpectedFilesError
from tests.data_prep.captioned_images import own_folders as folders

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
        ("holdout.csv", ""),
    ],
)
def test_splits_in_paths(path, split):
    assert split_of_path(path) == split
