"""All commands of `python -m xmodal annotate`, and their messages."""

import json
import re
import sys

import numpy as np
import pytest

from xmodal.apps.annotate import __main__ as command
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place
from xmodal.apps.annotate.raters import find_rater
from xmodal.apps.annotate.study_file import StudyFile


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annotate", *map(str, arguments)])
        try:
            command.main()
        except SystemExit as ended:
            # The interpreter prints a string passed to sys.exit, and exits with code 1.
            text = ended.code if isinstance(ended.code, str) else ""
            return 1 if text else ended.code, capsys.readouterr().err + text
        return 0, capsys.readouterr().out

    return run


def test_from_models_to_labels(run, few_shapes, tmp_path):
    study = tmp_path / "round.study"
    shapes = ["--dataset=crisscrossed_shapes", f"--data_dir={few_shapes}", f"--study={study}"]
    ids = {"image": range(175, 200), "caption": range(875, 1000)}
    rng = np.random.default_rng(0)
    arrays = {f"{kind}_ids": np.array(each) for kind, each in ids.items()}
    arrays |= {
        f"{kind}_embeddings": rng.normal(size=(len(each), 4)).astype(np.float32)
        for kind, each in ids.items()
    }
    np.savez(tmp_path / "model.npz", **arrays)
    made = ["make", "eccv", *shapes, f"--models={tmp_path}/model.npz", "--images=2", "--captions=2"]
    code, said = run(*made, "--similarity=cosine", "--per_hit=10")
    assert code == 0, said
    assert re.search(r": 2[0-4] questions in 2 units, \d+ pictures, 1 rater\(s\) each; ", said)

    code, said = run("invite", f"--study={study}", "--raters=2", "--url=https://rate.example.org/")
    tokens = re.findall(r"^rater\d  https://rate.example.org/join/(\S{43})$", said, re.MULTILINE)
    assert len(tokens) == 2
    opened = StudyFile(study)
    first = find_rater(opened, tokens[0])
    queue = AssignmentQueue(opened)
    while isinstance(place := queue.next(first), Place):
        queue.save(first, place, "yes")  # the negative golden pairs, too
    review = ["review", f"--study={study}"]
    doubt = r"unit 2 of rater1: caption \d+, image \d+: yes instead of no"
    assert re.fullmatch(doubt, run(*review)[1].splitlines()[1])
    assert run("aggregate", f"--study={study}", f"--output={tmp_path}/none")[0] == 1
    assert run(*review, "--accept=1:rater1") == (0, "unit 1 of rater1: accepted\n")
    assert run(*review, "--reject=2:rater1") == (0, "unit 2 of rater1: rejected\n")
    assert run(*review) == (0, "no units are waiting for review\n")
    code, said = run("aggregate", f"--study={study}", f"--output={tmp_path}/labels")
    assert code == 0
    assert "1 of 2 units have all their raters" in said
    lists = json.loads((tmp_path / "labels" / "eccv_image_to_caption.json").read_text())
    assert len(lists) == 2
    assert run("invite", f"--study={study}", "--end=rater2")[0] == 0
    assert find_rater(opened, tokens[1]).state == "ended"
