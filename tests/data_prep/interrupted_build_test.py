"""Builds that cannot finish (full disk, kill -9, too many bad records) never appear finished."""

import fcntl
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import data_prep
from data_prep.build import build
from data_prep.prepared import NotPreparedError, open_configs
from data_prep.validate import check
from tests.data_prep import web_records


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    web_records.expect(monkeypatch, web_records.write(tmp_path / "files", 20, 10, 10))
    return tmp_path / "files"


def _build(files, **settings):
    folders = {"data_dir": str(files.parent / "tfds"), "manual_dir": str(files)}
    return build("conceptual_captions", "images", **folders, **settings)


def _left(files):
    """Files in the folder of datasets, except for TFDS's metadata about configs."""
    folder = files.parent / "tfds" / "conceptual_captions" / "images"
    return sorted(path.name for path in folder.glob("*"))


def _is_sound(builder):
    return not [row for row in check(builder) if row.differs]


# Kills itself when the second split is half written.
_KILLED = """
    import os, signal, sys
    import data_prep
    from data_prep.build import build
    from data_prep.conceptual_captions.conceptual_captions_dataset_builder import Builder

    Builder.EXPECTED = {"train": 20, "validation": 10}
    real = Builder._splits

    def splits(self, folder):
        def until_killed(records):
            yield next(iter(records))
            os.kill(os.getpid(), signal.SIGKILL)

        found = real(self, folder)
        return found | {"validation": until_killed(found["validation"])}

    Builder._splits = splits
    build("conceptual_captions", "images", data_dir=sys.argv[1], manual_dir=sys.argv[2])
"""


def test_what_kill_9_leaves_is_no_dataset_and_the_next_build_succeeds(files):
    data_dir = files.parent / "tfds"
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_KILLED), str(data_dir), str(files)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    (left,) = _left(files)
    assert left.startswith("incomplete.")
    folder = data_dir / "conceptual_captions" / "images"
    assert any((folder / left).iterdir())
    assert not data_prep.builder_class("conceptual_captions")(
        config="images", data_dir=str(data_dir)
    ).is_prepared()
    with pytest.raises(NotPreparedError):
        open_configs("conceptual_captions", None, str(data_dir))
    # Another process that is building, and one that is about to start.
    (folder / "incomplete.LIVING_1.0.0").mkdir()
    (folder / "incomplete.JUSTNO_1.0.0").mkdir()
    with (folder / "incomplete.LIVING_1.0.0" / ".lock").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        assert _is_sound(_build(files))
    assert _left(files) == ["1.0.0", "incomplete.JUSTNO_1.0.0", "incomplete.LIVING_1.0.0"]
