"""The command of search."""

import sys

import pytest

from tests.api.converted_models import MODELS, save_converted
from xmodal.apps import search as command
from xmodal.models.encoders import efficientnet


@pytest.fixture(scope="module")
def of_pixels(tmp_path_factory):
    """A model for pictures, with only the first stage of its network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:1])
        folder = tmp_path_factory.mktemp("pixels") / "model"
        yield save_converted(folder, MODELS["pixels"])


@pytest.fixture
def search(monkeypatch, capsys):
    """Runs `python -m xmodal search ARGUMENTS...`; returns its output."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["xmodal.api.search", *map(str, arguments)])
        monkeypatch.setattr("xmodal.core.reused_memory.reuse_memory", lambda: None)
        command.main()
        return capsys.readouterr().out

    return call
