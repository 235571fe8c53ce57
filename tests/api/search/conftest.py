"""The command of search."""

import sys

import pytest

from xmodal.cli import search as command


@pytest.fixture
def search(monkeypatch, capsys):
    """Runs `python -m xmodal search ARGUMENTS...`; returns its output."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["xmodal.api.search", *map(str, arguments)])
        command.main()
        return capsys.readouterr().out

    return call
