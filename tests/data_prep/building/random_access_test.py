"""A build checks, counts and hashes its records, or stops and leaves only a list."""

import csv
import io
import pathlib
import sys
from typing import ClassVar

import PIL.Image
import pytest
import tensorflow_datasets as tfds

import data_prep
from data_prep import build, schema, validate
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import LeftOut
from xmodal.core.errors import UnexpectedFilesError


def _jpeg(number, mode="RGB"):
    file = io.BytesIO()
    PIL.Image.new(mode, (8, 6 + number)).save(file, "JPEG")
    return file.getvalue()


def _record(number, **changes):
    example = {
        "image": _jpeg(number),
        "image_id": number,
        "captions": [f"caption {number}", "naïve"],
        "caption_ids": [10 * number, 10 * number + 1],
        "relations": [0, 1, 1],
    }
    return number, example | changes


def _opened(record):
    """Opens images with odd numbers as files: builders may yield files or bytes."""
    if isinstance(record, LeftOut) or record[0] % 2 == 0:
        return record
    return record[0], record[1] | {"image": io.BytesIO(record[1]["image"])}


class Pictures(RandomAccessBuilder):
    name = "pictures"
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar = [tfds.core.BuilderConfig(name="images")]
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Put something somewhere."
    ROWS: ClassVar = {}

    def _info(self):
        pixels = tfds.features.Image(shape=(None, None, 3))
        return tfds.core.DatasetInfo(
            builder=self,
            features=schema.captioned_image_features(pixels, relations=3),
            metadata=tfds.core.MetadataDict(relations=["a", "b", "c"]),
        )

    def _splits(self, folder):
        return {split: map(_opened, rows) for split, rows in self.ROWS.items()}


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "something").touch()
    monkeypatch.setitem(data_prep.BUILDERS, "pictures", f"{__name__}:Pictures")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])

    def run(min_kept=None, **rows):
        monkeypatch.setattr(Pictures, "ROWS", rows)
        folders = {"data_dir": str(tmp_path / "tfds"), "manual_dir": str(tmp_path / "files")}
        return build.build("pictures", "images", min_kept=min_kept, **folders)

    return run


def _some():
    return [
        _record(1),
        _record(2, image=_jpeg(2, "CMYK")),
        LeftOut("3.jpg", "no image"),
        _record(4, image=_jpeg(4)[:100]),
        _record(5, captions=["fine", " \n"]),
        _record(6, captions=[], caption_ids=[]),
        _record(7, captions=["lone \ud800", "x"]),
        _record(8, image_id=2**31),
        _record(9),
    ]


def test_what_is_left_out_is_counted_and_listed(prepare):
    builder = prepare(min_kept=0.3, train=_some(), test=[_record(1)])
    metadata = builder.info.metadata
    assert metadata["kept"] == {"train": 3, "test": 1}
    assert metadata["left_out"] == {
        "train": {
            "no image": 1,
            "truncated image": 1,
            "empty caption": 1,
            "no caption": 1,
            "value that cannot be stored": 2,
        },
        "test": {},
    }
    assert metadata["relations"] == ["a", "b", "c"]
    with open(builder.data_path / "left_out.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["where"] for row in rows] == ["3.jpg", "4", "5", "6", "7", "8"]
    stored = {int(e["image_id"]): e for e in builder.as_data_source("train")}
    assert sorted(stored) == [1, 2, 9]
    assert stored[9]["relations"].tolist() == [0, 1, 1]
    assert stored[2]["image"].shape == (8, 8, 3)


def test_hashes_are_of_the_records_alone(prepare):
    rows = [_record(k) for k in range(20)]
    metadata = prepare(train=rows, test=rows[::-1], other=[*rows[:-1], _record(19, image_id=90)])
    hashes = metadata.info.metadata["split_hashes"]
    assert hashes["train"] == hashes["test"] != hashes["other"]
    rows = [row for row in validate.check(metadata) if row.name.endswith("/hash")]
    assert [row.differs for row in rows] == [False] * 3


def _refused(prepare, tmp_path, message, **rows):
    with pytest.raises(UnexpectedFilesError, match=message) as error:
        prepare(**rows)
    folder = tmp_path / "tfds" / "pictures" / "images"
    assert {path.name for path in folder.glob("*")} <= {"left_out.csv"}
    return str(error.value), folder / "left_out.csv"


def test_too_little_stops_with_the_report_and_a_better_try_starts_cleanly(prepare, tmp_path):
    rows = {"train": _some(), "test": [_record(1), LeftOut("2.jpg", "no image")]}
    text, listed = _refused(
        prepare, tmp_path, "less than 0.4 of the records of train;", min_kept=0.4, **rows
    )
    assert "value that cannot be stored 2, " in text
    for reason in ("empty caption", "no caption", "no image", "truncated image"):
        assert f"{reason} 1" in text
    assert str(listed) in text
    assert len(listed.read_text().splitlines()) == 8
    builder = prepare(min_kept=0.3, **rows)
    assert not listed.exists()
    assert (pathlib.Path(builder.data_path) / "left_out.csv").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([LeftOut("a", "no image")], "pictures/images has no usable record in split train"),
        ([_record(1), _record(2, image_id=1)], "split train: image_id 1 appears twice"),
        ([_record(1, caption_ids=[3, 3])], "caption_ids 3 appears twice"),
    ],
)
def test_empty_splits_and_repeated_ids_stop_the_build(prepare, tmp_path, rows, message):
    _refused(prepare, tmp_path, message, train=rows, min_kept=0.0)
