"""`xmodal reproduce`: the list, exit codes, and two rows on real data."""

import collections
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


def test_the_list_names_the_rows_of_a_system(monkeypatch, capsys):
    assert run(monkeypatch, "--list", "cmcm/preferences", "cxc/bow", "cxc/resnet152_slim") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  cmcm/table 6, Story: 4 not covered" in lines
    assert "  cxc/table 3: 4 needs files" in lines
    assert "  cxc/table 4" in lines  # Has no printed numbers.


def test_the_list_of_a_group_has_all_rows_of_its_tables(results, monkeypatch, capsys):
    assert run(monkeypatch, "--list", "cxc") == 0
    listed = {line.split(",")[0] for line in capsys.readouterr().out.splitlines()}
    rows = [row for row in results.rows if row.table.name.startswith("cxc/")]
    assert {row.system.name for row in rows} <= listed
    assert "vsrn/single" in listed


def test_missing_files_end_with_2_and_unknown_names_with_an_error(monkeypatch, capsys):
    monkeypatch.delenv("XMODAL_TEST_DATA", raising=False)
    assert run(monkeypatch, "pcme/pcme") == 2
    said = capsys.readouterr().err
    assert "pcme_coco.pth, from https://github.com/naver-ai/pcme" in said
    assert "Did you mean 'pcme/pcme'?" in run(monkeypatch, "pcme/pmce")


def test_rows_of_vete_are_searches(results, tmp_path):
    """But those of others' vectors, and of SemEval."""
    folders = collections.defaultdict(lambda: tmp_path)
    rows = [row for row in results.rows if row.table.name.startswith("vete/")]
    commands = Reproduction(results, folders, tmp_path, draws=7).commands
    for row in rows:
        words = [word for each in commands(row.system) for word in each]
        assert ("--trials=7" in words) == bool(row.system.run and "glove" not in row.system.name)
    cells = [row for row in rows if row.table.name == "vete/table 5"]
    assert len(cells) == len({row.system.name for row in cells}) == 12


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
