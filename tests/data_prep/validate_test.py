"""The command that checks prepared datasets, on stand-ins and on the real Clue."""

import json
import pathlib
import sys

import pytest

from data_prep import validate
from data_prep.build import build
from data_prep.conceptual_captions.conceptual_captions_dataset_builder import Builder
from tests.data_prep import web_records


@pytest.fixture
def validated(monkeypatch, capsys):
    """Runs the command; returns its exit code, and its rows by dataset and by name."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["validate", *map(str, args), "--json"])
        capsys.readouterr()  # builds also print
        try:
            validate.main()
            code = 0
        except SystemExit as error:
            code = error.code
        found = json.loads(capsys.readouterr().out)
        rows = {entry["dataset"]: {row["name"]: row for row in entry["rows"]} for entry in found}
        return code, rows

    return run


def _figures(row):
    return row["found"], row["expected"], row["verdict"]


@pytest.fixture
def links(tmp_path, monkeypatch):
    """A small Conceptual Captions, of which some images are lost."""
    (tmp_path / "files").mkdir()
    web_records.expect(monkeypatch, web_records.write(tmp_path / "files", 20, 10, 10))
    folders = {"data_dir": str(tmp_path / "tfds"), "manual_dir": str(tmp_path / "files")}
    build("conceptual_captions", "images", **folders)
    return tmp_path / "tfds"


def test_what_was_left_out_is_a_part_and_adds_up(links, validated, monkeypatch):
    arguments = "--dataset=conceptual_captions", f"--data_dir={links}"
    code, rows = validated(*arguments)
    rows = rows["conceptual_captions/images"]
    assert code == 0
    assert _figures(rows["train/records with those left out"]) == (20, 20, "ok")
    assert "not an image 1" in rows["train/records left out"]["note"]
    assert _figures(rows["validation/image_id also in train"]) == (0, 0, "ok")
    assert _figures(rows["train/images unusable"]) == (0, 0, "ok")
    hashes = rows["train/hash"]
    assert len(hashes["found"]) == 64
    assert hashes["found"] == hashes["expected"]
    figures = Builder.published_figures("images") | {"train/records": 20, "train/captions": 2}
    monkeypatch.setattr(Builder, "published_figures", staticmethod(lambda config: figures))
    code, rows = validated(*arguments)
    assert code == 1
    assert rows["conceptual_captions/images"]["train/records"]["verdict"] == "part"
    assert rows["conceptual_captions/images"]["train/captions"]["verdict"] == "differs"


def test_a_shard_with_one_wrong_bit_is_found(links, validated):
    (shard,) = pathlib.Path(links).rglob("*train.array_record*")
    content = bytearray(shard.read_bytes())
    used = [place for place, byte in enumerate(content) if byte]  # most of a small shard is empty
    content[used[len(used) // 2]] ^= 16
    shard.write_bytes(content)
    code, rows = validated("--dataset=conceptual_captions", f"--data_dir={links}", "--skip_images")
    rows = rows["conceptual_captions/images"]
    assert code == 1
    assert rows["train/hash"]["verdict"] == "differs"
    assert "Corrupted" in rows["train/records read"]["note"]
    assert rows["validation/hash"]["verdict"] == "ok"
    assert "validation/images unusable" not in rows


@pytest.mark.slow
def test_the_leaks_of_clue_are_known(real_data, tmp_path, validated):
    build("clue", "labels", data_dir=str(tmp_path), manual_dir=str(real_data / "clue"))
    code, rows = validated("--dataset=clue", f"--data_dir={tmp_path}")
    rows = rows["clue/labels"]
    assert code == 0
    assert {name: row["found"] for name, row in rows.items() if row["verdict"] == "known"} == {
        "test/picture also in train": 610,
        "test/picture and caption also in train": 38,
        "test/captions also in train": 202,
        "test/picture repeated": 137,
    }
    assert _figures(rows["test/relation Where"]) == (376, 376, "ok")
