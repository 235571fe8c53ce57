"""The command that checks prepared datasets, on a stand-in."""

import pathlib
import sys

import pytest

from data_prep import validate
from data_prep.build import build
from data_prep.validate import check
from tests.data_prep import web_records


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A small Conceptual Captions, of which some images are lost."""
    (tmp_path / "files").mkdir()
    web_records.expect(monkeypatch, web_records.write(tmp_path / "files", 20, 10, 10))
    folders = {"data_dir": str(tmp_path / "tfds"), "manual_dir": str(tmp_path / "files")}
    return build("conceptual_captions", "images", **folders)


def _rows(builder):
    return {row.name: row for row in check(builder)}


def test_a_sound_dataset_is_as_it_was_built(built):
    rows = _rows(built)
    assert not any(row.differs for row in rows.values())
    assert "not an image 1" in rows["train/records"].note
    assert rows["train/hash"].found == rows["train/hash"].expected
    assert len(rows["train/hash"].found) == 64


def test_a_shard_with_one_wrong_bit_is_found(built, monkeypatch, capsys):
    (shard,) = pathlib.Path(built.data_dir).rglob("*train.array_record*")
    content = bytearray(shard.read_bytes())
    used = [place for place, byte in enumerate(content) if byte]  # most of a small shard is empty
    content[used[len(used) // 2]] ^= 16
    shard.write_bytes(content)
    rows = _rows(built)
    assert rows["train/hash"].differs
    assert "Corrupted" in rows["train/records"].note
    assert not rows["validation/hash"].differs
    folder = f"--data_dir={built._data_dir_root}"
    monkeypatch.setattr(sys, "argv", ["validate", "--dataset=conceptual_captions", folder])
    with pytest.raises(SystemExit, match="1"):
        validate.main()
    assert "2 figures differ" in capsys.readouterr().out
