"""The command that plots ranks by the gap of the best two scores."""

import io
import sys

import numpy as np
import PIL.Image
import pytest

from configs import cmcm_clue
from tests.integration.papers_test import shrink
from xmodal.apps.analysis import score_gaps
from xmodal.train import loop


def test_a_row_for_every_range_of_gaps():
    gaps = np.array([0.01, 0.024, 0.02, 0.05, 0.06, 0.5])
    ranks = np.array([1, 4, 9, 1, 2, 1])
    assert score_gaps.tabulate_gaps(gaps, ranks)[1:] == [
        ["0.01", "3", "33.3", "50.0"],
        ["0.05", "2", "50.0", "66.7"],
        ["0.3", "1", "100.0", "100.0"],
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("fast_compilation", "quick_draws")
def test_the_figure_of_a_run(few_shapes, tmp_path, monkeypatch, capsys):
    config = cmcm_clue.get_config("quick,base")
    shrink(config)
    config.total_steps, config.batch_size, config.data.data_dir = 1, 8, few_shapes
    config.tensorboard.update(queries=0, projector=0)
    config.evals = {"pools": config.evals.pools.to_dict() | {"every": 1}}
    loop.train(config, str(tmp_path / "run"))
    capsys.readouterr()

    words = [f"--run={tmp_path / 'run'}", f"--output={tmp_path / 'out'}"]
    monkeypatch.setattr(sys, "argv", ["score_gaps", *words])
    score_gaps.main()
    head, *rows, written = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["gap", "from", "captions"]
    assert sum(int(row.split()[1]) for row in rows) == 3 * 20
    assert written == f"{tmp_path / 'out'}: score_gaps.png"
    png = PIL.Image.open(io.BytesIO((tmp_path / "out/score_gaps.png").read_bytes()))
    assert len(set(png.convert("RGB").getdata())) > 20
