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
