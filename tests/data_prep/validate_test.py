"""The command that checks prepared datasets, on stand-ins and on the real Clue."""

import json
import pathlib
import sys

import pytest

from data_prep import validate
from data_prep.build import build
from tests.data_prep import web_records


@pytest.fixture
def validated(monkeypatch, capsys):
    """Runs the command; returns its exit code, and its rows by name."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["validate", *map(str, args), "--json"])
        capsys.readouterr()  # builds also print
        try:
            validate.main()
            code = 0
        except SystemExit as error:
            code = error.code
        (found,) = json.loads(capsys.readouterr().out)
        return code, {row["name"]: row for row in found["rows"]}

    return run


@pytest.fixture
def links(tmp_path, monkeypatch):
    """A small Conceptual Captions, of which some images are lost."""
    (tmp_path / "files").mkdir()
    web_records.expect(monkeypatch, web_records.write(tmp_path / "files", 20, 10, 10))
    folders = {"data_dir": str(tmp_path / "tfds"), "manual_dir": str(tmp_path / "files")}
    build("conceptual_captions", "images", **folders)
    return "--dataset=conceptual_captions", f"--data_dir={tmp_path}/tfds"


def test_a_sound_dataset_is_as_it_was_built(links, validated):
    code, rows = validated(*links)
    assert code == 0
    assert "not an image 1" in rows["train/records left out"]["note"]
    assert rows["validation/image_id also in train"]["found"] == 0
    assert rows["train/images unusable"]["found"] == 0
    assert rows["train/hash"]["found"] == rows["train/hash"]["expected"]
    assert len(rows["train/hash"]["found"]) == 64


def test_a_shard_with_one_wrong_bit_is_found(links, validated):
    (shard,) = pathlib.Path(links[1].partition("=")[2]).rglob("*train.array_record*")
    content = bytearray(shard.read_bytes())
    used = [place for place, byte in enumerate(content) if byte]  # most of a small shard is empty
    content[used[len(used) // 2]] ^= 16
    shard.write_bytes(content)
    code, rows = validated(*links, "--skip_images")
    assert code == 1
    assert rows["train/hash"]["found"] != rows["train/hash"]["expected"]
    assert "Corrupted" in rows["train/records"]["note"]
    assert rows["validation/hash"]["found"] == rows["validation/hash"]["expected"]


@pytest.mark.slow
def test_the_leaks_of_clue_are_counted(real_data, tmp_path, validated):
    build("clue", "labels", data_dir=str(tmp_path), manual_dir=str(real_data / "clue"))
    code, rows = validated("--dataset=clue", f"--data_dir={tmp_path}")
    assert code == 0
    names = ("picture also in train", "captions also in train", "picture repeated")
    assert [rows[f"test/{name}"]["found"] for name in names] == [610, 202, 137]
