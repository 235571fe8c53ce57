"""The ledger's own rows: complete, consistent, and equal to the numbers that reports print."""

import collections
import pathlib
import re

import pytest

from xmodal.apps.ledger.ledger_entries import STATUSES, Files, Ledger, System, Value, read_ledger
from xmodal.core.errors import UserError
from xmodal.evals.reports import published
from xmodal.pretrained.packaged_towers import PACKAGED

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def ledger():
    return read_ledger()


@pytest.mark.parametrize(
    ("text", "number", "deviation"),
    [
        ("41.3", 41.3, 0),
        ("74.4±0.4", 74.4, 0.4),
        ("23.6 / 24.9", 24.25, 0),
        ("+2.4 [-3.4, 8.1]", 2.4, 0),
        ("semi-hard", None, 0),
    ],
)
def test_values(text, number, deviation):
    value = Value(text)
    assert value.number == (None if number is None else pytest.approx(number))
    assert value.deviation == deviation


def test_every_row_is_complete(ledger):
    assert len(ledger.rows) > 350
    statuses = collections.Counter(row.status for row in ledger.rows)
    assert set(statuses) == set(STATUSES)
    names = [(row.table.name, row.label, row.system.name) for row in ledger.rows]
    assert len(set(names)) == len(names)
    for row in ledger.rows:
        system, table = row.system, row.table
        assert row.published or row.measured
        assert table.reason
        assert table.source or not row.published, table.name
        assert not (table.unverified and row.measured)
        # Without a command, a reader is told why.
        assert system.run or system.note or system.parity, system.name
        assert set(system.needs) <= set(ledger.files)
        assert not system.parity or (ROOT / system.parity).exists()
        assert not system.like or ledger.of_system(system.like)
        if table.page:
            columns = [tag for tag in row.measured if not system.metric]
            assert set(columns) <= set(table.columns)
            assert len(table.heads) == len(table.columns)
        # Recalls rise with K.
        for values in (row.published, row.measured):
            for tag, value in values.items():
                if tag.endswith("recall@1") and (ten := values.get(f"{tag}0")):
                    assert value.number <= ten.number


def test_reports_print_no_unverified_number(ledger):
    doubtful, checked = set(), set()
    for row in ledger.rows:
        numbers = doubtful if row.table.unverified else checked
        numbers |= {(tag, value.number) for tag, value in row.published.items()}
    printed = {
        (tag, number)
        for models in published.published_numbers().values()
        for numbers in models.values()
        for tag, number in numbers.items()
    }
    assert doubtful
    assert checked & printed
    assert not (doubtful - checked) & printed


def test_files_are_found_in_both_kinds_of_folders(tmp_path, monkeypatch):
    files = {
        "labels": Files("labels", "the labels", "https://labels", ("a.csv|b.csv",), folder="."),
        "model": Files("model", "the model", "https://model", ("m.bin",), folder="weights",
                       sha256={"m.bin": "12ab"}),
        "package": Files("package", "a package", "pip", ("__init__.py",), package="numpy"),
    }  # fmt: skip
    ledger, system = Ledger({}, (), files), System("group/system", "system", needs=(*files,))
    monkeypatch.delenv("XMODAL_TEST_DATA", raising=False)
    assert ledger.missing(system, ledger.find_folders([])) == {
        "labels": ["a.csv|b.csv"],
        "model": ["m.bin"],
    }
    said = files["model"].describe_missing(["m.bin"])
    assert "missing m.bin, from https://model; --folder=weights=PATH" in said
    assert said.endswith("SHA-256 of m.bin: 12ab")
    (tmp_path / "cxc").mkdir()
    (tmp_path / "cxc/b.csv").touch()  # In a folder of the folder.
    monkeypatch.setenv("XMODAL_TEST_DATA", str(tmp_path))
    assert ledger.missing(system, ledger.find_folders([])) == {"model": ["m.bin"]}
    (tmp_path / "other").mkdir()
    (tmp_path / "other/m.bin").touch()
    assert not ledger.missing(system, ledger.find_folders([f"weights={tmp_path}/other"]))
    with pytest.raises(UserError, match="must be NAME=PATH"):
        ledger.find_folders(["wieghts=/"])


def test_systems_need_the_files_that_their_commands_read(ledger):
    """A publisher has many models; each system needs its own, and no folder that it never reads."""
    missing = ledger.missing(ledger.systems["sgraf/sgr_flickr30k"], {})
    vocabulary = "vocab/f30k_precomp_vocab.json"
    assert missing["sgraf"] == ["sgraf/f30k_SGR/model_best.pth.tar", vocabulary]
    compared = 0
    for system in ledger.systems.values():
        names = [name for key in system.needs for name in ledger.names_of(key, system)]
        for path in re.findall(r"{weights}/(\S+)", " ".join(system.run)):
            # A folder may stand for its files, and the prefix of a checkpoint for the folder.
            assert any(f"{path}/".startswith(f"{n}/") or n.startswith(f"{path}/") for n in names)
            compared += 1
    assert compared > 100


def test_packaged_towers_have_the_checksums_of_the_ledger(ledger):
    for key, tower in PACKAGED.items():
        named = {pathlib.PurePath(name).name: name for name in ledger.files[key].names}
        assert ledger.files[key].sha256[named[tower.file]] == tower.sha256
