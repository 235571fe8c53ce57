"""`xmodal reproduce`: the list, exit codes, and two rows on real data."""

import dataclasses
import json
import re
import sys

import pytest

from xmodal.apps.explore.board import load_published
from xmodal.apps.ledger import reproduce
from xmodal.apps.ledger.ledger_entries import Value, read_ledger
from xmodal.apps.ledger.ledger_files import folders_of


@pytest.fixture(scope="module")
def ledger():
    return read_ledger()


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
    # Of three seeds, 11 minutes.
    assert "clip/quick          1 measured here  would run 1 train, 4 CPU minutes" in said
    assert f"{len(names)} systems can run here; those of known time take " in said


def test_missing_files_end_with_2_and_unknown_names_with_an_error(monkeypatch, capsys):
    monkeypatch.delenv("XMODAL_TEST_DATA", raising=False)
    assert run(monkeypatch, "pcme/pcme") == 2
    said = capsys.readouterr().err
    assert "pcme_coco.pth is missing: from https://github.com/naver-ai/pcme" in said
    assert "--folder=weights=PATH or XMODAL_TEST_DATA names the folder" in said
    said = run(monkeypatch, "pcme/pmce")
    assert "'pcme/pmce' is not in the ledger" in said
    assert "Did you mean 'pcme/pcme'?" in said
    assert "clip/" not in said  # Systems of the same paper are enough.
    assert "'clip'" in run(monkeypatch, "clpi")
    assert "cxc/use has no command" in run(monkeypatch, "cxc/use")
    assert "No system fits" in run(monkeypatch, "quickstart/i2t", "--minutes=1")
    assert run(monkeypatch, "--all", "--seeds=0") == 2
    assert "--seeds: '0' is not a positive integer" in capsys.readouterr().err


def test_a_group_stands_for_its_systems(ledger):
    chosen = reproduce.choose_systems(ledger, ["quickstart", "clip/rn50"], None, None)
    names = [system.name for system in chosen]
    assert set(names) > {"quickstart/i2t", "quickstart/t2t", "clip/rn50"}
    assert {name.partition("/")[0] for name in names} == {"quickstart", "clip"}
    # Those without a command are skipped, unless they are named.
    assert "cxc/use" not in {
        each.name for each in reproduce.choose_systems(ledger, ["cxc"], None, None)
    }


def test_published_numbers_are_those_that_the_board_reads(ledger, monkeypatch, tmp_path, capsys):
    path = tmp_path / "papers.csv"
    assert run(monkeypatch, f"--write_published={path}") == 0
    found = load_published(str(path))
    assert f"has {sum(map(len, found.values())):,}".replace(",", "") in capsys.readouterr().out
    assert found["CLIP RN50 (clip/5K)"]["coco5k/i2t/recall@1"] == 48.84
    for row in ledger.rows:
        numbers = found.get(f"{row.label} ({row.table.name})", {})
        assert not (row.table.unverified and numbers), row
        for tag, value in row.published.items():
            if value.number is not None and not row.table.unverified:
                assert numbers[tag] * row.table.scale == pytest.approx(value.number)
    assert run(monkeypatch, "cvse", f"--write_published={path}") == 0
    own = {f"{row.label} ({row.table.name})" for row in ledger.rows if "cvse/" in row.system.name}
    assert load_published(str(path)).keys() <= own
    assert "'cvs' is not in the ledger" in run(monkeypatch, "cvs", f"--write_published={path}")


@pytest.mark.slow
def test_a_real_row(ledger, real_data, tmp_path, monkeypatch, capfd):
    """A baseline of relations is inside; a row with another number is outside."""
    pytest.importorskip("sklearn")
    monkeypatch.setenv("XMODAL_TEST_DATA", str(real_data))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    system = ledger.systems["relations/cite_tf_idf"]
    folders = folders_of(ledger, [])
    assert reproduce.reproduce([system], ledger, folders, tmp_path) == 0
    said = capfd.readouterr().out
    assert re.search(r"reproduced, 8 of 8 numbers inside, in 0\.\d CPU minutes", said)
    report = tmp_path / "results/relations/cite_tf_idf/reproduced.json"
    content = json.loads(report.read_text())
    assert content["reproduced"] is True
    assert [check["inside"] for check in content["checks"]] == [True] * 8

    measured = {"mean/average_precision": Value("60.0")}
    rows = [dataclasses.replace(row, measured=measured) for row in ledger.of_system(system.name)]
    changed = dataclasses.replace(ledger, rows=tuple(rows))
    # The results are there already.
    done = dataclasses.replace(system, run=("--help",))
    assert reproduce.reproduce([done], changed, folders, tmp_path) == reproduce.OUTSIDE
    assert "OUTSIDE" in capfd.readouterr().out

    empty = dataclasses.replace(ledger.systems["relations/cite_base"], run=("--help",))
    assert reproduce.reproduce([done, empty], ledger, folders, tmp_path) == reproduce.OUTSIDE
    summary = capfd.readouterr().out.splitlines()[-1]
    assert summary.startswith("1 of 2 systems have no number outside; ")
    assert summary.endswith("failed: relations/cite_base")
