"""Connections to an SQLite file that many threads read and change at once."""

import collections
import contextlib
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")
_Change = Callable[[sqlite3.Connection], _T]


class Connections:
    """Reads and changes an SQLite file; safe for several threads and processes."""

    def __init__(self, path: pathlib.Path) -> None:
        """Uses an existing file."""
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._keeps = False
        self._writer = threading.Lock()
        self._waiting: collections.deque[tuple[_Change, Future]] = collections.deque()

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Keeps connections for later uses, which saves a server a third of its time."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            while self._idle:
                self._idle.pop().close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees a single state of the file."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    def change(self, function: Callable[[sqlite3.Connection], _T]) -> _T:
        """Returns the result of a function that changes the file, once it is synced to disk.

        If the function raises an error, it changes nothing. Changes are made in the order of the
        calls. Those of threads that wait share a transaction: syncing takes longer than all else,
        and SQLite lets each of several writers try again from time to time.
        """
        result: Future[_T] = Future()
        self._waiting.append((function, result))
        with self._writer:
            if not result.done():
                self._change_all([self._waiting.popleft() for _ in range(len(self._waiting))])
        return result.result()

    def _change_all(self, changes: list[tuple[_Change, Future]]) -> None:
        try:
            with self._connected() as connection:
                connection.execute("BEGIN IMMEDIATE")
                outcomes = [_attempt(connection, function) for function, _ in changes]
                connection.execute("COMMIT")
        except BaseException as error:
            for _, result in changes:
                result.set_exception(error)
            return
        for (_, result), (value, failure) in zip(changes, outcomes, strict=True):
            if failure is None:
                result.set_result(value)
            else:
                result.set_exception(failure)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection; if it is closed after an error, its transaction is rolled back."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
        is_kept = False
        try:
            yield connection
            is_kept = self._keeps
        finally:
            if is_kept:
                self._idle.append(connection)
            else:
                connection.close()


def connect(path: pathlib.Path) -> sqlite3.Connection:
    """Returns a new connection, whose transactions are synced to disk."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _attempt(connection: sqlite3.Connection, function: _Change) -> tuple[Any, Exception | None]:
    """Returns the result of a change, or its error after undoing it."""
    connection.execute("SAVEPOINT change")
    value, failure = None, None
    try:
        value = function(connection)
    except Exception as error:
        failure = error
        # Raises an error where SQLite has undone the whole transaction, as on a full disk.
        connection.execute("ROLLBACK TO change")
    connection.execute("RELEASE change")
    return value, failure
