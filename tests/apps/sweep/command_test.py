"""The command line of the sweep, in this process."""

import pytest

from xmodal.apps.sweep import __main__ as sweep

pytest.importorskip("optuna")

CONFIG = """
from tests.apps.sweep import bag


def get_config():
    return bag.make_config({data_dir!r})
"""
SPACE = """

def get_space():
    return {
        "optimizer.learning_rate": ("log", 1e-3, 1e-1),
        "batch_size": ("choice", 16, 32),
    }
"""


@pytest.fixture
def run(run_command, few_shapes, tmp_path):
    (tmp_path / "drawn.py").write_text(CONFIG.format(data_dir=few_shapes) + SPACE)
    given = (f"--config={tmp_path / 'drawn.py'}", f"--workdir={tmp_path / 'sweep'}")
    return lambda *arguments: run_command(sweep, *given, *arguments)


@pytest.fixture
def table(monkeypatch):
    """The printed lines, when called."""
    printed = []
    monkeypatch.setattr(
        "builtins.print", lambda *texts, **_: printed.extend(f"{text}\n" for text in texts)
    )
    return lambda: "".join(printed).splitlines()


def test_a_dry_run_lists_the_draws(run, tmp_path, table):
    arguments = ["--dry_run", "--trials=3", "--config.batch_size=32", "--space=seed:int:0:9"]
    code, _ = run(*arguments, "--study=data.captions_per_image=2,3")
    assert code == 0
    lines = table()
    # The fixed batch size is not drawn.
    heads = ["trial", "data.captions_per_image", "optimizer.learning_rate", "seed"]
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == heads
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:8]]
    assert [row[0] for row in rows] == [f"{number:04d}" for number in range(6)]
    assert [row[1] for row in rows] == ["2", "3"] * 3
    assert [row[2:] for row in rows[::2]] == [row[2:] for row in rows[1::2]]
    assert lines[-1] == "6 trials, compared by shapes/mean_recall@10."
    assert not (tmp_path / "sweep").exists()


MARGIN = "tasks.t2t.loss.options.margin:uniform:0:1"
LOSSES = "{'name': 'softmax'},{'name': 'triplet'}"
ENCODERS = "{'name':'words','vocab_size':0},{'name':'rnn','vocab_size':0,'embedding_width':8}"


@pytest.mark.parametrize(
    ("study", "drawn", "rows"),
    [
        (f"tasks.t2t.loss={LOSSES}", MARGIN, ["-", "0."]),
        ("tasks.t2t.loss.name=triplet,softmax", MARGIN, ["0.", "-"]),
        (f"model.text.encoder={ENCODERS}", "model.text.encoder.biases:choice:2", ["-", "2"]),
    ],
)  # fmt: skip
def test_a_studied_section_draws_only_what_it_has(run, table, study, drawn, rows):
    code, said = run("--dry_run", "--trials=2", f"--study={study}", f"--space={drawn}")
    assert code == 0, said
    cells = [line.strip("|").split("|") for line in table()[2:6]]
    assert [line[-1].strip()[:2] for line in cells] == rows * 2
    assert [line[2:-1] for line in cells[::2]] == [line[2:-1] for line in cells[1::2]]


def test_what_no_studied_value_has_is_an_error(run):
    code, said = run(
        "--dry_run", f"--study=tasks.t2t.loss={LOSSES}", "--space=tasks.t2t.loss.options.q:int:0:1"
    )
    assert code == 1
    assert (
        "tasks.t2t.loss.options.q is drawn, but no studied value of tasks.t2t.loss has it" in said
    )
