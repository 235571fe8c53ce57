"""The results's own rows: complete, consistent, and equal to the numbers that reports print."""

import collections
import pathlib

import pytest

from xmodal.apps.reproduction.entries import STATUSES, read_results
from xmodal.evals.reports import published
from xmodal.pretrained.packaged_towers import PACKAGED

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def results():
    return read_results()


def test_every_row_is_complete(results):
    assert len(results.rows) > 350
    statuses = collections.Counter(x for row in results.rows for x in row.statuses.values())
    assert set(statuses) == set(STATUSES)
    names = [(row.table.name, row.label, row.system.name) for row in results.rows]
    assert len(set(names)) == len(names)
    for row in results.rows:
        system, table = row.system, row.table
        # A row without numbers says why.
        assert row.published or row.measured or system.note
        assert table.reason
        assert table.source or not row.published, table.name
        assert not (table.unverified and row.measured)
        # Without a command, a reader is told why.
        assert system.run or system.note or system.parity, system.name
        assert set(system.needs) <= set(results.files)
        assert not system.parity or (ROOT / system.parity).exists()
        assert not system.like or results.of_system(system.like)
        if table.page:
            columns = [tag for tag in row.measured if not system.metric]
            assert set(columns) <= set(table.columns)
            assert len(table.heads) == len(table.columns)
        # Recalls rise with K.
        for values in (row.published, row.measured):
            for tag, value in values.items():
                if tag.endswith("recall@1") and (ten := values.get(f"{tag}0")):
                    assert value.number <= ten.number


def test_reports_print_no_unverified_number(results):
    doubtful, checked = set(), set()
    for row in results.rows:
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


def test_packaged_towers_have_the_published_checksums(results):
    for key, tower in PACKAGED.items():
        named = {pathlib.PurePath(name).name: name for name in results.files[key].names}
        assert results.files[key].sha256[named[tower.file]] == tower.sha256
