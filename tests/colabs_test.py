"""The notebook's code runs from its first cell to its last."""

import json
import pathlib

import pytest

from configs import quickstart

FOLDER = pathlib.Path(__file__).parents[1] / "colabs"


@pytest.mark.slow
@pytest.mark.usefixtures("fast_compilation")
def test_quickstart_trains_evaluates_and_searches(few_shapes, tmp_path, monkeypatch, capsys):
    notebook = json.loads((FOLDER / "quickstart.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    config = quickstart.get_config()
    config.data.data_dir, config.optimizer.schedule.warmup_steps = few_shapes, 1
    monkeypatch.setattr(quickstart, "get_config", lambda: config)
    names = {}
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or cell["outputs"] == []
        source = "".join(cell["source"])
        shell = any(line.lstrip().startswith(("!", "%")) for line in source.splitlines())
        if cell["cell_type"] == "code" and not shell:
            exec(compile(source, cell["id"], "exec"), names)
        if cell["id"] == "settings":
            names |= {"STEPS": 2, "RUN": str(tmp_path)}
    printed = capsys.readouterr().out
    assert "i2t R@1 " in printed
    assert names["nearest"].shape == (4, 5)
    for place in names["nearest"].flatten():
        assert f" {names['captions'][place]}\n" in printed
