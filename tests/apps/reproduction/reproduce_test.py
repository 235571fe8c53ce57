"""`xmodal reproduce`: the list, exit codes, and two rows on real data."""

import dataclasses
import json
import re
import sys

import pytest

from xmodal.apps.reproduction import reproduce
from xmodal.apps.reproduction.entries import Value, read_results
from xmodal.apps.reproduction.reproduce import Reproduction


@pytest.fixture(scope="module")
def results():
    return read_results()


def run(monkeypatch, *arguments):
    """The exit code and message of a command."""
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
    try:
        reproduce.main()
    except SystemExit as ended:
        return ended.code
    return 0


def test_the_list_of_what_would_run(monkeypatch, capsys):
    monkeypatch.delenv("XMODAL_TEST_DATA", raising=False)
    assert run(monkeypatch, "--available", "--minutes=5", "--seeds=1") == 0
    said = capsys.readouterr().out
    names = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert set(names) >= {"quickstart/t2t", "clip/quick"}
    assert "coherence/cmca" not in names  # It takes longer.
    assert "clip/rn50" not in names  # Its files are missing.
    assert f"{len(names)} systems can run here; those of known time take " in said


def test_missing_files_end_with_2_and_unknown_names_with_an_error(monkeypatch, capsys):
    monkeypatch.delenv("XMODAL_TEST_DATA", raising=False)
    assert run(monkeypatch, "pcme/pcme") == 2
    said = capsys.readouterr().err
    assert "pcme_coco.pth, from https://github.com/naver-ai/pcme" in said
    assert "Did you mean 'pcme/pcme'?" in run(monkeypatch, "pcme/pmce")


@pytest.mark.slow
def test_a_real_row(results, real_data, tmp_path, monkeypatch, capfd):
    """A baseline of relations is inside; a row with another number is outside."""
    pytest.importorskip("sklearn")
    monkeypatch.setenv("XMODAL_TEST_DATA", str(real_data))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    system = results.systems["relations/cite_tf_idf"]
    folders = results.find_folders([])
    assert Reproduction(results, folders, tmp_path).run([system]) == 0
    said = capfd.readouterr().out
    assert re.search(r"reproduced, 8 of 8 numbers inside, in 0\.\d CPU minutes", said)
    report = tmp_path / "results/relations/cite_tf_idf/reproduced.json"
    content = json.loads(report.read_text())
    assert content["reproduced"] is True
    assert [check["inside"] for check in content["checks"]] == [True] * 8

    measured = {"mean/average_precision": Value("60.0")}
    rows = [dataclasses.replace(row, measured=measured) for row in results.of_system(system.name)]
    changed = dataclasses.replace(results, rows=tuple(rows))
    # The results are there already.
    done = dataclasses.replace(system, run=("--help",))
    assert Reproduction(changed, folders, tmp_path).run([done]) == reproduce.OUTSIDE
    assert "OUTSIDE" in capfd.readouterr().out
