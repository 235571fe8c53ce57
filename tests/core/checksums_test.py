"""Checksums of files."""

import hashlib

import pytest
from etils import epath

from xmodal.core import checksums
from xmodal.core.errors import UserError


def test_changed_and_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "_CHUNK", 7)
    folder, content = epath.Path(tmp_path), bytes(range(100))
    (folder / "a.npy").write_bytes(content)
    (folder / "b.npy").write_bytes(b"")
    known = {name: checksums.sha256_of(folder / name) for name in ("a.npy", "b.npy")}
    assert known["a.npy"] == hashlib.sha256(content).hexdigest()
    checksums.check_files(folder, known, "write it again.")
    for damaged in (content[:-1], content[:50] + b"\0" + content[51:], content + b"\0"):
        (folder / "a.npy").write_bytes(damaged)
        with pytest.raises(UserError, match="a.npy is damaged or truncated: write it again"):
            checksums.check_files(folder, known, "write it again.")
        checksums.check_files(folder, {"b.npy": known["b.npy"]}, "write it again.")
    (folder / "a.npy").unlink()
    with pytest.raises(UserError, match="a.npy is missing: write it again"):
        checksums.check_files(folder, known, "write it again.")
