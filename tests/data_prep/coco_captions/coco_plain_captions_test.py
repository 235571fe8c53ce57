"""COCO captions without images: from Karpathy's file, or from tables and lines of some captions."""

import csv
import gzip
import json

import pytest

from data_prep.coco_captions import plain_captions
from data_prep.coco_captions.coco_captions_dataset_builder import Builder
from tests.data_prep.builds import build

# Image -> Karpathy split and number of captions in the table; 73 has a sixth, not for evaluation.
_TABLE = {9: ("train", 6), 42: ("restval", 1), 73: ("val", 6), 74: ("test", 5)}
_LINES = [(9, "train", 5), (25, "train", 2), (26, "restval", 3)]


def _caption_id(image_id, k):
    return 1000 - 10 * image_id + k


def _rows():
    for image_id, (split, count) in _TABLE.items():
        for k in range(count):
            yield {
                "caption_id": _caption_id(image_id, k),
                "image_id": image_id,
                "karpathy_split": split,
                "in_karpathy5": int(k != 2 or count < 6),
                "source": "somewhere",
                "caption": f'caption {k}, of "{image_id}"\n',
            }


def _write(folder, rows, name="captions_known.csv.gz", lines=_LINES):
    rows = list(rows)
    with gzip.open(folder / name, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with open(folder / "captions_more.jsonl", "w", encoding="utf-8") as file:
        for image_id, split, count in lines:
            texts = [f"text {k} of {image_id}" for k in range(count)]
            line = {"image_id": image_id, "karpathy_split": split, "captions": texts}
            file.write(json.dumps(line) + "\n")


def test_lines_alone(tmp_path):
    _write(tmp_path, _rows(), lines=[*_LINES, (73, "val", 5), (74, "test", 5)])
    (tmp_path / "captions_known.csv.gz").unlink()
    builder = build(Builder, tmp_path, "captions")
    assert set(_read(builder, "train")) == {9, 25, 26}
    assert list(_read(builder, "test")) == [74]


@pytest.fixture
def built(tmp_path):
    _write(tmp_path, _rows())
    # Not a caption file.
    (tmp_path / "karpathy_5k_caption_image.csv").write_text("caption_id,image_id\n1,2\n")
    return build(Builder, tmp_path, "captions")


def _read(builder, split):
    return {int(example["image_id"]): example for example in builder.as_data_source(split)}


def test_tables_and_lines_together(built):
    train = _read(built, "train")
    new = plain_captions.FIRST_NEW_ID
    expected = {
        9: [_caption_id(9, k) for k in range(6)],
        42: [_caption_id(42, 0)],
        25: [new, new + 1],
        26: [new + 2, new + 3, new + 4],
    }
    assert {i: list(example["caption_ids"]) for i, example in train.items()} == expected
    assert train[9]["captions"][5].decode() == 'caption 5, of "9"\n'
    assert train[26]["captions"][2].decode() == "text 2 of 26"
    assert "image" not in train[9]


def test_karpathys_file_comes_first_and_needs_no_images(tmp_path, monkeypatch):
    sentences = [{"raw": f"words {k}", "sentid": k} for k in range(5)]
    records = [
        {"cocoid": image_id, "split": split, "filepath": "x", "filename": "y"}
        | {"sentences": [s | {"sentid": s["sentid"] + image_id} for s in sentences]}
        for image_id, split in ((10, "train"), (20, "restval"), (30, "val"), (40, "test"))
    ]
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": records}))
    _write(tmp_path, _rows())
    counts = {"train": 1, "restval": 1, "val": 1, "test": 1, "captions": 20}
    monkeypatch.setattr(Builder, "EXPECTED", counts)
    builder = build(Builder, tmp_path, "captions")
    assert sorted(_read(builder, "train")) == [10, 20]
    assert builder.info.metadata["complete"]
