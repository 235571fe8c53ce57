"""Readers of lines, JSON and zip files, intact and damaged."""

import gzip
import io
import zipfile

import pytest

from data_prep.reading.text_files import open_archive, read_json, read_jsonl, read_member
from xmodal.core.errors import UnexpectedFilesError


def _write(path, content):
    encoded = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
    return path


def test_json_and_its_damage(tmp_path):
    assert read_json(_write(tmp_path / "a.json.gz", '{"a": [1, "ü"]}')) == {"a": [1, "ü"]}
    lines = _write(tmp_path / "b.jsonl", '{"a": 1}\n\n[2]\n')
    assert list(read_jsonl(lines)) == [("b.jsonl line 1", {"a": 1}), ("b.jsonl line 3", [2])]
    for content in (b"", b'{"a": [1, ', b'{"a": "\xe9"}'):
        path = _write(tmp_path / "bad.json", content)
        with pytest.raises(UnexpectedFilesError, match=f"{path} cannot be read as JSON"):
            read_json(path)
    path = _write(tmp_path / "bad.jsonl", '{"a": 1}\n{"a": \n')
    with pytest.raises(UnexpectedFilesError, match=f"{path} line 2 cannot be read as JSON"):
        list(read_jsonl(path))
    path = _write(tmp_path / "latin.json", '{"a": "é"}'.encode("latin-1"))
    with pytest.raises(UnexpectedFilesError, match="can't decode byte 0xe9 in position 7"):
        read_json(path)


def test_a_key_that_occurs_twice_is_said_wherever_json_is_read(tmp_path):
    path, hooks = _write(tmp_path / "a.json", '{"b": {"a": 1, "a": 2}}'), []
    said = r"a\.json cannot be read as JSON: the key 'a' occurs twice in the object {'a': 2}"
    for hook in (None, hooks.append):
        with pytest.raises(UnexpectedFilesError, match=said):
            read_json(path, object_hook=hook)
    assert not hooks
    _write(path, '{"b": {"a": 1}}')
    assert read_json(path, object_hook=lambda found: [*found.items()]) == [("b", [("a", 1)])]


def test_archives_and_their_damage(tmp_path):
    path, content = tmp_path / "a.zip", bytes(range(256)) * 40
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("folder/a.txt", content)
    packed = file.getvalue()
    path.write_bytes(packed)
    with open_archive(path) as archive:
        assert read_member(archive, "folder/a.txt") == content
        with pytest.raises(UnexpectedFilesError, match="no item named 'b.txt'"):
            read_member(archive, "b.txt")
    for damaged in (b"", packed[: len(packed) // 2], packed[:-10], b"<html></html>"):
        path.write_bytes(damaged)
        with pytest.raises(
            UnexpectedFilesError, match=rf"{path} is truncated or not a zip archive"
        ):
            open_archive(path)
    path.write_bytes(packed[:5000] + b"\0" * 100 + packed[5100:])
    with open_archive(path) as archive, pytest.raises(UnexpectedFilesError, match="a.txt: Bad CRC"):
        read_member(archive, "folder/a.txt")
