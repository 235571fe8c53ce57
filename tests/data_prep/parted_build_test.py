"""Builds with Beam workers give the same records, counts and hash as a plain build."""

import importlib.util
import os
import pickle
import sys

import pytest

from data_prep import build as build_command
from data_prep.build import build
from data_prep.building import record_check
from tests.data_prep import web_records
from tests.data_prep.web_records import TWO_WORKERS
from xmodal.core.errors import UnexpectedFilesError

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="apache-beam is not installed: pip install -e '.[beam]'",
)


@pytest.fixture
def links(tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    web_records.expect(monkeypatch, web_records.write(tmp_path / "files", 120, 31, 10))
    # Workers started by Beam import the modules of this process.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return tmp_path / "files"


def _build_links(files, name, **settings):
    folders = {"data_dir": str(files.parent / name), "manual_dir": str(files)}
    return build("conceptual_captions", "images", **folders, **settings)


def test_parts_give_what_one_pass_gives(links, monkeypatch):
    plain = _build_links(links, "plain")
    counts = plain.info.metadata
    assert set(counts["left_out"]["train"]) >= {"no image", "not an image", "not UTF-8"}
    assert counts["parts"]["train"] == {"damaged archive": 1}

    def transform(records, check, folder):
        """Passes everything through bytes, as to other processes."""
        work = pickle.loads(pickle.dumps((records.read, check)))
        for part in pickle.loads(pickle.dumps(list(enumerate(records.parts)))):
            yield from record_check._checked_records(*work, folder, part)

    monkeypatch.setattr(build_command, "_beam_options", lambda flags: object())
    monkeypatch.setattr(record_check.PartedRecords, "transform", transform)
    web_records.assert_equal(_build_links(links, "parted"), plain)


@needs_beam
def test_two_workers_of_beam_build_the_same(links):
    plain = _build_links(links, "plain")
    web_records.assert_equal(_build_links(links, "beam", beam_pipeline_options=TWO_WORKERS), plain)
    with pytest.raises(UnexpectedFilesError, match=r"keeps less than 0\.99 (.|\n)*no image 1"):
        _build_links(links, "few", min_kept=0.99, beam_pipeline_options="runner=FnApiRunner")
