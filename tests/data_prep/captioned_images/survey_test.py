"""Pictures that are in several rows or samples become one, with all their captions."""

import collections
import io
import json
import tarfile

import pyarrow
import pyarrow.parquet
import pytest

from data_prep.captioned_images import captioned_images_dataset_builder as dataset_builder
from data_prep.captioned_images import split_choice
from data_prep.prepared import read_columns
from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import prepare
from xmodal.core.errors import UnexpectedFilesError

_COUNT = 12


def _rows():
    """Number of the picture, name and caption of every row, and a row that is there twice."""
    rows = [(n, f"{n}{part}", f"{n}, seen by {part}") for part in "abc" for n in range(_COUNT)]
    return [*rows, (3, "3d", "3, seen by a")]


def _parquet(folder, key="image", shards=1):
    rows = [{key: {"bytes": folders.picture(n)}, "caption": text} for n, _, text in _rows()]
    for shard in range(shards):
        table = pyarrow.Table.from_pylist(rows[shard::shards])
        pyarrow.parquet.write_table(table, folder / f"part-{shard}.parquet")


def _parquet_shards(folder):
    _parquet(folder, shards=2)


def _img2dataset(folder):
    rows = [
        {"jpg": folders.picture(n), "TEXT": text, "URL": f"http://x/{n}"} for n, _, text in _rows()
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "00000.parquet")


def _tar(folder):
    for shard in range(2):
        with tarfile.open(folder / f"0000{shard}.tar", "w") as archive:
            for n, key, text in _rows()[shard::2]:
                meta = json.dumps({"caption": text}).encode()
                for name, content in {"png": folders.picture(n), "json": meta}.items():
                    member = tarfile.TarInfo(f"{key}.{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("write", [_parquet, _parquet_shards, _img2dataset, _tar])
def test_rows_with_the_same_content_are_one_picture(write, tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder)
    builder = prepare(folder)
    found = collections.Counter(
        tuple(sorted(text.decode() for text in texts))
        for split in builder.info.splits
        for texts in read_columns(builder, split, ["captions"])["captions"]
    )
    by_picture = collections.defaultdict(set)
    for number, _, text in _rows():
        by_picture[number].add(text)
    assert found == collections.Counter(tuple(sorted(texts)) for texts in by_picture.values())
    assert "caption appears twice 1" in capfd.readouterr().err
    assert "caption appears twice" in (builder.data_path / "left_out.csv").read_text()
    ids = [
        number
        for split in builder.info.splits
        for each in read_columns(builder, split, ["caption_ids"])["caption_ids"]
        for number in each.tolist()
    ]
    assert sorted(ids) == list(range(3 * _COUNT))


def test_the_same_content_in_two_splits_stays_two_pictures(tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    for split, numbers in {"train": range(6), "validation": [6, 7], "test": [0, 8]}.items():
        rows = [{"image": folders.picture(n), "caption": f"{n} in {split}"} for n in numbers]
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, folder / f"{split}.parquet")
    builder = prepare(folder)
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == {
        "train": 6,
        "validation": 2,
        "test": 2,
    }
    assert "1 images of validation or test have a copy" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "images/p000.png").unlink(), "images/p001.png was added, rem"),
        (lambda folder: (folder / "images/p029.png").unlink(), "images/p029.png was added, rem"),
        (lambda folder: folders.write_images(folder, [30]), "images/p030.png was added, removed"),
    ],
)
def test_pictures_that_come_or_go_during_the_build(change, message, tmp_path, monkeypatch):
    """They would get the ids and the splits of others."""
    folder = tmp_path / "files"
    folders.write_images(folder, folders.NUMBERS)
    for number in folders.NUMBERS:
        text = folder / "images" / folders.name(number)
        text.with_suffix(".txt").write_text(f"caption {number}")

    def choose_later(*arguments):
        (folder / "images/p030.txt").write_text("another")
        change(folder)
        return split_choice.choose_splits(*arguments)

    monkeypatch.setattr(dataset_builder, "choose_splits", choose_later)
    folders.write_csv(folder / "ratings.csv", [["left", "right", "score"], ["p003", "p004", 1]])
    configs = ["images"] if "p029" in message else ["images", "ratings"]
    for config in configs:
        with pytest.raises(UnexpectedFilesError, match=message):
            prepare(folder, config)
        folders.write_images(folder, folders.NUMBERS)
        (folder / "images/p030.png").unlink(missing_ok=True)
