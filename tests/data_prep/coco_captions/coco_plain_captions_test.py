"""COCO captions without images: from Karpathy's file, or from tables and lines of some captions."""

import csv
import gzip
import json

import pytest

from data_prep.coco_captions import plain_captions
from data_prep.coco_captions.coco_captions_dataset_builder import Builder
from tests.data_prep.builds import build
from xmodal import data

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


def test_evaluation_has_the_five_captions_of_the_split(built):
    found = {split: _read(built, split) for split in ("validation", "test")}
    assert list(found["validation"]) == [73]
    ids = list(found["validation"][73]["caption_ids"])
    assert ids == [_caption_id(73, k) for k in (0, 1, 3, 4, 5)]
    assert len(found["test"][74]["captions"]) == 5


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


def _config(folder, **changes):
    text = {"vocabulary_size": 60, "max_length": 12}
    config = {"dataset": "coco_captions", "config": "captions", "data_dir": str(folder / "tfds")}
    return config | {"text": text, "captions_per_image": 1} | changes


def test_rated_pairs_of_what_is_not_there_are_left_out(built, tmp_path):
    for part in ("val", "test"):
        for task, left, right in (
            ("sts", "caption1", "caption2"),
            ("sis", "image1", "image2"),
            ("sits", "caption", "image"),
        ):
            captions = [
                f"COCO_val2014:sentid:{n}" for n in (_caption_id(73, 0), _caption_id(73, 1), 999)
            ]
            images = [f"COCO_val2014_{i:012d}.jpg" for i in (73, 999)]
            ends = {
                "sts": [captions[:2], captions[1:]],
                "sis": [images, images[::-1]],
                "sits": [(captions[0], images[1]), (captions[2], images[1])],
            }
            rows = [[*pair, "3.5", "m"] for pair in ends[task]]
            with open(tmp_path / f"{task}_{part}.csv", "w", newline="") as file:
                csv.writer(file).writerows([[left, right, "agg_score", "sampling_method"], *rows])
    held_out = data.eval_split(_config(tmp_path, ratings_dir=str(tmp_path)), split="validation")
    assert held_out.ratings["sts"]["left_ids"].tolist() == [_caption_id(73, 0)]
    assert held_out.ratings["sts"]["scores"].tolist() == [3.5]
    assert {task: len(pairs["scores"]) for task, pairs in held_out.ratings.items()} == {
        "sts": 1,
        "sis": 0,
        "sits": 0,
    }
    assert held_out.partial == "1 images, 5 captions"
    assert "sts_val.csv holds 2 pairs instead of 44,009" in held_out.differences
    assert "sts_val.csv has the unknown sampling methods m" in held_out.differences
    assert data.eval_split(_config(tmp_path), split="validation").differences == []
    assert not data.eval_split(_config(tmp_path), split="validation").partial
