"""A user's pictures in folders of classes."""

import PIL.Image
import pytest

from data_prep.build import build
from xmodal.core.errors import UnexpectedFilesError


def write(folder, *names):
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 2:
            PIL.Image.new("RGB", (8, 6), (20 * number, 0, 0)).save(path)
        else:
            PIL.Image.new("L", (5, 7), 20 * number).save(path)


def prepare(folder, data_dir, **options):
    folders = {"data_dir": str(data_dir), "manual_dir": str(folder)}
    return build("class_folders", "images", **folders, **options)


def read(folder, data_dir, **options):
    builder = prepare(folder, data_dir, **options)
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
    with pytest.raises(UnexpectedFilesError, match="1 of 4 records cannot be used, more than 0.1"):
        read(tmp_path / "mine", tmp_path / "tfds")
    assert read(tmp_path / "mine", tmp_path / "tfds", min_kept=0.5) == {
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
        (["train/dog/1.jpg", "cat/1.jpg"], "pictures in cat, train and, below, in no folders"),
        ([], "has pictures in no folders"),
        (["pets/cat/1.jpg", "pets/dog/2.jpg"], "pictures in pets and, below, in cat, dog"),
        (["cat/train/1.jpg", "dog/test/2.jpg"], "in cat, dog and, below, in test, train"),
    ],
)
def test_folders_with_two_readings(tmp_path, names, message):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    write(tmp_path / "mine", *names)
    with pytest.raises(UnexpectedFilesError, match=message):
        read(tmp_path / "mine", tmp_path / "tfds")


def test_copies_in_two_splits_or_classes_are_counted(tmp_path, capfd):
    mine = tmp_path / "mine"
    write(
        mine, *(f"{split}/{each}/1.png" for split in ("train", "test") for each in ("cat", "dog"))
    )
    for source, copy in {
        "train/cat/1.png": "test/cat/2.png",
        "train/dog/1.png": "test/dog/2.png",
        "test/cat/1.png": "test/dog/3.png",
    }.items():
        (mine / copy).write_bytes((mine / source).read_bytes())
    # Files that are not stored are no copies.
    for split in ("train", "test"):
        (mine / split / "cat/none.png").write_bytes(b"")
    prepare(mine, tmp_path / "tfds", min_kept=0.5)
    said = capfd.readouterr().err
    assert "warning: 2 images of validation or test have a copy in an earlier split" in said
    assert "warning: 1 images are in several classes" in said
