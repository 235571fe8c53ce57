"""The command of search."""

import sys

import pytest

from xmodal.search import __main__ as command


@pytest.fixture
def search(monkeypatch, capsys):
    """Runs `python -m xmodal.search ARGUMENTS...`; returns its output."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["xmodal.search", *map(str, arguments)])
        command.main()
        return capsys.readouterr().out

    return call
