"""Changes of many threads at once, whole or not at all."""

import concurrent.futures
import sqlite3
import threading

import pytest

from xmodal.apps.annotate.connections import Connections, connect


@pytest.fixture
def connections(tmp_path):
    path = tmp_path / "numbers"
    connection = connect(path)
    connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return Connections(path)


def numbers(connections):
    with connections.reading() as connection:
        return [row["number"] for row in connection.execute("SELECT * FROM numbers ORDER BY 1")]


def add(connection, *values):
    for value in values:
        connection.execute("INSERT INTO numbers VALUES (?)", (value,))
    return values


def test_changes_that_wait_share_a_transaction_in_their_order(connections):
    begun, go_on, order, commits = threading.Event(), threading.Event(), [], []

    def first(connection):
        connection.set_trace_callback(lambda sql: commits.append(sql == "COMMIT"))
        begun.set()
        assert go_on.wait(20)

    def later(number):
        def change(connection):
            order.append(number)
            add(connection, number, 100 if number % 5 == 4 else 100 + number)  # 100 only once
            return -number

        return connections.change(change)

    with connections.keeping(), concurrent.futures.ThreadPoolExecutor(31) as pool:
        pool.submit(connections.change, first)
        assert begun.wait(20)
        results = []
        for number in range(30):
            results.append(pool.submit(later, number))
            while len(connections._waiting) <= number:
                pass
        go_on.set()
    assert order == list(range(30))
    assert sum(commits) == 2
    failed = [number for number in range(30) if results[number].exception()]
    assert failed == [4, 9, 14, 19, 24, 29]  # 0 has added 100 before
    assert all(isinstance(results[n].exception(), sqlite3.IntegrityError) for n in failed)
    kept = [number for number in range(30) if number not in failed]
    assert [results[number].result() for number in kept] == [-number for number in kept]
    assert numbers(connections) == sorted([*kept, *(100 + number for number in kept)])


def test_a_transaction_that_fails_as_a_whole_fails_every_change(connections, monkeypatch):
    def lose(connection):
        add(connection, 1)
        connection.execute("ROLLBACK")  # as SQLite does when the disk is full
        raise OSError

    with pytest.raises(sqlite3.OperationalError):
        connections.change(lose)
    assert connections.change(lambda connection: add(connection, 2)) == (2,)
    assert numbers(connections) == [2]
