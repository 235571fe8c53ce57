"""Clue from stand-ins of the released split with fetched images, and from the real files."""

import csv
import pathlib

import pytest

from data_prep.clue.clue_dataset_builder import Builder
from tests.data_prep import img2dataset
from tests.data_prep.builds import build
from tests.data_prep.img2dataset import jpeg

_RELATIONS = [
    "Visible",
    "Subjective",
    "Action",
    "Story",
    "Meta",
    "Irrelevant",
    "Other",
    "When",
    "How",
    "Where",
]
_HEADER = ["", "index", "caption", "url", *_RELATIONS, "Comment"]
# Split -> index, caption, url, headers of the columns that are 1.
_ROWS = {
    "train": [
        (4, "the end of the road", "http://x/4", ["Visible", "How"]),
        (0, "a leaf", "http://x/0", ["Meta"]),
        (6, "close up of a leaf", "http://x/0", ["Visible", "Where"]),
    ],
    "test": [
        (2, "a leaf on a tree", "http://x/0", []),  # its picture is in train
        (3, "at the bay , naïve", "http://x/3", ["How", "Where", "When"]),
    ],
}
_TOTALS = {"train": 3, "test": 2, "train/Visible": 2, "train/Where": 1, "test/When": 1}


def _write(folder):
    for split, rows in _ROWS.items():
        with (folder / f"conceptual_{split}_dis.csv").open(
            "w", encoding="utf-8", newline=""
        ) as file:
            writer = csv.writer(file)
            writer.writerow(_HEADER)
            for number, (index, caption, url, relations) in enumerate(rows):
                labels = [int(name in relations) for name in _HEADER[4:-1]]
                writer.writerow([number, index, caption, url, *labels, False])


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", _TOTALS)
    _write(tmp_path)
    return tmp_path


def _splits(folder, config="labels"):
    builder = Builder(config=config, data_dir=folder / "tfds")
    return {split: list(rows) for split, rows in builder._splits(folder).items()}


def test_where_and_how_are_put_right(manual_dir):
    examples = {key: example for rows in _splits(manual_dir).values() for key, example in rows}
    names = Builder(config="labels", data_dir=manual_dir).info.metadata["relations"]

    def relations(pair):
        flags = examples[pair]["relations"]
        return [name for name, holds in zip(names, flags, strict=True) if holds]

    assert relations(4) == ["Visible", "Where"]
    assert relations(6) == ["Visible", "How"]
    assert relations(3) == ["When", "Where", "How"]
    assert (examples[3]["captions"], examples[3]["picture"]) == (
        ("at the bay , naïve",),
        "http://x/3",
    )
    # By the ids of the pairs: 0 (http://x/0), 3, 4.
    assert [examples[pair]["picture_id"] for pair in (0, 2, 6, 4)] == [0, 0, 0, 2]


def test_pictures_come_by_url_or_number_and_the_missing_ones_are_listed(manual_dir):
    fetched = [("http://x/4", "x", None), ("http://x/0", "x", jpeg(5)), ("http://y", "x", jpeg(6))]
    img2dataset.write(manual_dir / "images", [*fetched, ("http://x/3", "x", jpeg(7))], "webdataset")
    builder = build(Builder, manual_dir, "images", manual_dir / "tfds")
    shown = {
        split: {int(e["image_id"]): e["image"].shape[1] for e in builder.as_data_source(split)}
        for split in ("train", "test", "test_deduplicated")
    }
    assert shown == {"train": {0: 5, 6: 5}, "test": {2: 5, 3: 7}, "test_deduplicated": {3: 7}}
    assert builder.info.metadata["left_out"]["train"] == {"no image": 1}
    assert builder.info.metadata["deduplicated"] == {"picture also in train": 1}
    listed = (pathlib.Path(builder.data_dir) / "left_out.csv").read_text()
    assert f"conceptual_train_dis.csv line 2,no image,{img2dataset.NOT_FOUND}" in listed


def test_the_real_split_agrees_with_the_annotations(real_data, tmp_path):
    builder = Builder(config="labels", data_dir=tmp_path)
    splits = {split: dict(rows) for split, rows in builder._splits(real_data / "clue").items()}
    assert {split: len(rows) for split, rows in splits.items()} == {
        "train": 6047,
        "test": 1512,
        "test_deduplicated": 869,
    }
    assert builder.info.metadata["deduplicated"] == {
        "picture also in train": 610,
        "caption also in train": 22,
        "picture also in an earlier row of test": 10,
        "caption also in an earlier row of test": 1,
    }
    with (real_data / "clue" / "data-both-04-08-cleaned.tsv").open(
        encoding="utf-8", newline=""
    ) as file:
        annotations = list(csv.DictReader(file, delimiter="\t"))
    names = builder.info.metadata["relations"]
    pairs = splits["train"] | splits["test"]
    assert len(pairs) == 7559
    for key, example in pairs.items():
        row = annotations[key]
        assert (example["captions"], example["picture"]) == ((row["caption"],), row["url"])
        assert example["relations"].tolist() == [int(row[name]) for name in names]
    # Pairs without any of the six relations of CMCM.
    assert sum(not example["relations"][:6].any() for example in pairs.values()) == 379
