"""A user's pictures in folders of classes."""

import PIL.Image
import pytest

from data_prep.build import build
from data_prep.errors import UnexpectedFilesError


def write(folder, *names):
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 2:
            PIL.Image.new("RGB", (8, 6), (20 * number, 0, 0)).save(path)
        else:
            PIL.Image.new("L", (5, 7), 20 * number).save(path)


def read(folder, data_dir):
    builder = build("class_folders", "images", data_dir=str(data_dir), manual_dir=str(folder))
    names = builder.info.metadata["label"]
    return {
        split: {
            example["picture"].decode(): names[example["label"]]
            for example in builder.as_data_source(split)
        }
        for split in builder.info.splits
    }


def test_folders_of_classes_are_the_test_split(tmp_path):
    write(tmp_path / "mine", "dog/1.jpg", "cat/2.png", "cat/deep/3.jpg", "stray.jpg")
    assert read(tmp_path / "mine", tmp_path / "tfds") == {
        "test": {"dog/1.jpg": "dog", "cat/2.png": "cat", "cat/deep/3.jpg": "cat"}
    }


def test_folders_of_splits(tmp_path):
    write(
        tmp_path / "mine", "train/dog/1.jpg", "train/cat/2.jpg", "val/cat/1.jpg", "test/owl/1.jpg"
    )
    assert read(tmp_path / "mine", tmp_path / "tfds") == {
        "train": {"train/dog/1.jpg": "dog", "train/cat/2.jpg": "cat"},
        "validation": {"val/cat/1.jpg": "cat"},
        "test": {"test/owl/1.jpg": "owl"},
    }


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train/dog/1.jpg", "cat/1.jpg"], "'train', which names a split, beside 'cat'"),
        ([], "has no pictures"),
    ],
)
def test_folders_with_two_readings(tmp_path, names, message):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    write(tmp_path / "mine", *names)
    with pytest.raises(UnexpectedFilesError, match=message):
        read(tmp_path / "mine", tmp_path / "tfds")
