"""LMDB files against LMDB's own library."""

import random

import pytest

from xmodal.core.untrusted.lmdb_files import LmdbFile


@pytest.fixture(scope="module")
def lmdb():
    return pytest.importorskip("lmdb")


def write(lmdb, folder, entries, **options):
    with lmdb.open(str(folder), map_size=2**26, **options) as env:
        with env.begin(write=True) as transaction:
            for key, value in entries:
                transaction.put(key, value)
        with env.begin() as transaction:
            return [(bytes(key), bytes(value)) for key, value in transaction.cursor()]


def read(path):
    file = LmdbFile(path)
    return [(key, file.read(place)) for key, place in file.places()]


def test_all_entries_are_the_librarys(lmdb, tmp_path):
    randomness = random.Random(0)
    assert write(lmdb, tmp_path, []) == read(tmp_path / "data.mdb") == []
    for _ in range(3):  # The last two writes are both in the file.
        keys = (randomness.randbytes(randomness.randint(1, 200)) for _ in range(900))
        sizes = (0, 1, 300, 5000, 9000)
        entries = [(key, randomness.randbytes(randomness.choice(sizes))) for key in keys]
        expected = write(lmdb, tmp_path, entries)
        assert read(tmp_path / "data.mdb") == expected
    assert len(expected) > 2600


def test_damage_is_found_within_the_file(lmdb, tmp_path):
    path = tmp_path / "data.mdb"
    write(lmdb, tmp_path, [(b"%d" % number, bytes(200)) for number in range(100)])
    whole = path.read_bytes()
    # The one page of branches refers to itself.
    root = next(
        page for page in range(0, len(whole), 4096) if whole[page + 10 : page + 12] == b"\1\0"
    )
    first = root + int.from_bytes(whole[root + 16 : root + 18], "little")
    for name, place, replacement, error in (
        ("itself", first, (root // 4096).to_bytes(4, "little"), "of another kind|a loop"),
        ("a page that is not there", first, b"\xff\xff\0\0", "truncated"),
        ("a node outside its page", root + 16, b"\xff\xff", "a node outside"),
        ("more nodes than a page", root + 12, b"\xff\xff", "of another kind"),
        ("pages of no bytes", 40, bytes(4), "its pages have 0 bytes"),
        ("another program", 16, b"SQLite", "does not start like one"),
    ):
        path.write_bytes(whole[:place] + replacement + whole[place + len(replacement) :])
        with pytest.raises(ValueError, match=error):
            print(name, len(read(path)))
    for size in (0, 3, 4096 + 20, len(whole) - 4096):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="empty|truncated"):
            read(path)


def test_tables_inside_a_table_are_refused(lmdb, tmp_path):
    with lmdb.open(str(tmp_path), max_dbs=2) as env:
        env.open_db(b"table")
    with pytest.raises(ValueError, match="tables inside"):
        read(tmp_path / "data.mdb")
