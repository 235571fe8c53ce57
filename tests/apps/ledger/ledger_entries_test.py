"""The ledger's own rows: complete, consistent, and equal to the numbers that reports print."""

import collections
import pathlib

import pytest

from configs import cmcm_clue
from xmodal.apps.ledger.ledger_entries import STATUSES, Value, read_ledger
from xmodal.evals.labels.definitions import DEFINITIONS, DIRECTIONS, RATING_SIDES
from xmodal.evals.reports import published

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def ledger():
    return read_ledger()


@pytest.mark.parametrize(
    ("text", "number", "deviation"),
    [
        ("41.3", 41.3, 0),
        ("74.4±0.4", 74.4, 0.4),
        ("-1.8 ± 1.7", -1.8, 1.7),
        (".87", 0.87, 0),
        ("23.6 / 24.9", 24.25, 0),
        ("+2.4 [-3.4, 8.1]", 2.4, 0),
        ("[-2.4, 3.1] / [-2.7, 2.4]", None, 0),
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


def test_rows_name_boards_that_exist(ledger):
    """Boards by their definition or dataset, and the evaluators of CMCM's configs."""
    known = {each.name for boards in DEFINITIONS.values() for each in boards}
    known |= {path.parent.name for path in ROOT.glob("data_prep/*/*_dataset_builder.py")}
    known |= {name for each in ("", "shapes") for name in cmcm_clue.get_config(each).evals}
    named = {
        tag.split("/")[0]
        for row in ledger.rows
        for tag in (*row.published, *row.measured)
        if tag.split("/")[1:2] in [[each] for each in (*DIRECTIONS, *RATING_SIDES, "mean")]
    }
    assert len(named) > 10
    assert not named - known


def test_rows_of_open_clips_siglips_are_run_as_open_clip_computes_them(ledger):
    """Their files do not tell the activation, without which `convert` refuses them."""
    systems = {row.system.name: row.system for row in ledger.rows}.values()
    found = [
        " ".join(system.run)
        for system in systems
        if "--model=siglip" in " ".join(system.run) and ".safetensors" in " ".join(system.run)
    ]
    assert len(found) == 6
    for commands in found:
        assert "--variant=gelu " in commands
        assert commands.endswith("--config.data.text.canonicalize=True")


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
