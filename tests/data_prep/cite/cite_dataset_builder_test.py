"""CITE from the real file, and CITE and CITE++ from stand-ins with pictures."""

import csv

import pytest

from data_prep.cite.cite_dataset_builder import Builder
from tests.data_prep.builds import build
from tests.data_prep.img2dataset import jpeg

_QUESTIONS = [f"q{n}_resp" for n in range(2, 9)]
_TRAIN = [("Mix | stir", "soup_1_0.jpg", "TFFFFTF"), ("Bake", "1.png", "FFFFFFF")]
_TEST = [
    ("Bake", "cake_2_0.jpg", "TFFFFFF"),  # its text is in train
    ("Serve", "cake_2_0.jpg", "FTFFFFT"),
    ("Eat", "cake_3_0.jpg", "FFTFFFF"),
]


def _rows(pairs):
    answers = {"T": "True", "F": "False"}
    for number, (text, picture, flags) in enumerate(pairs):
        yield [number, picture, text, *(answers[flag] for flag in flags)]


def _write(path, pairs, delimiter):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["", "qimg", "stim_txt", *_QUESTIONS])
        writer.writerows(_rows(pairs))


@pytest.fixture
def manual_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "EXPECTED", {"train": 2, "train/Expansion": 1})
    monkeypatch.setattr(Builder, "EXPECTED_PLUS", {"train": 2, "test": 3, "train/Temporal_i>t": 1})
    _write(tmp_path / "data.csv", _TRAIN, "|")
    _write(tmp_path / "q2-8_train_dis_11-08.csv", _TRAIN, ",")
    _write(tmp_path / "q2-8_test_dis_11-08.csv", _TEST, ",")
    return tmp_path


def _splits(folder, config):
    builder = Builder(config=config, data_dir=folder / "tfds")
    return {split: list(rows) for split, rows in builder._splits(folder).items()}


def test_pictures_are_found_by_file_name_in_any_folder(manual_dir):
    below = manual_dir / "images" / "train" / "images-qa"
    below.mkdir(parents=True)
    (below / "1.png").write_bytes(jpeg(6))
    builder = build(Builder, manual_dir, "images", manual_dir / "tfds", min_kept=0.5)
    (example,) = builder.as_data_source("train")
    assert (int(example["image_id"]), example["image"].shape[1]) == (1, 6)
    assert builder.info.metadata["left_out"]["train"] == {"no image": 1}


def test_relations_and_ids(manual_dir):
    splits = _splits(manual_dir, "plus_labels")
    assert {split: [key for key, _ in rows] for split, rows in splits.items()} == {
        "train": [0, 1],
        "test": [100_000, 100_001, 100_002],
        "test_deduplicated": [100_001, 100_002],
    }
    example = splits["test"][1][1]
    assert example["relations"].tolist() == [0, 1, 0, 0, 0, 0, 1]
    assert (example["captions"], example["picture"]) == (("Serve",), "cake_2_0.jpg")
    pictures = {e["picture"]: e["picture_id"] for rows in splits.values() for _, e in rows}
    assert pictures == {"soup_1_0.jpg": 0, "1.png": 1, "cake_2_0.jpg": 2, "cake_3_0.jpg": 3}
    assert [[*e["captions"]] for _, e in _splits(manual_dir, "labels")["train"]] == [
        ["Mix | stir"],
        ["Bake"],
    ]


def test_the_real_file_holds_what_was_published(real_data, tmp_path):
    builder = build(Builder, real_data / "cite", "labels", tmp_path)
    assert builder.info.splits["train"].num_examples == 2047
    source = builder.as_data_source("train")
    examples = source.__getitems__(range(len(source)))
    assert sorted(int(e["image_id"]) for e in examples) == list(range(2047))
    assert sum(e["relations"] for e in examples).tolist() == [1699, 119, 432, 269, 115, 1007, 411]
    assert len({int(e["picture_id"]) for e in examples}) == 1528
    assert len({e["captions"][0] for e in examples}) == 1548
