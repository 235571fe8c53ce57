"""Flags of the evaluation binary that cannot be combined."""

import pytest
from absl import flags
from absl.testing import flagsaver
from ml_collections import ConfigDict

from xmodal import eval_main
from xmodal.core.errors import UserError

FILES = {"annotations": "labels", "output": "out"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Give one of --run, --config, --embeddings, .*, --rankings; given: none"),
        ({"run": "r", "scores": "s.npy"}, "; given: --run and --scores"),
        ({"run": "r", "similarity": "dot"}, "--similarity cannot be used with --run"),
        ({"run": "r", "partial": True, "ids": "i"}, "--ids, --partial cannot be used with --run"),
        ({"run": "r", "follow": True, "step": "5"}, "--step cannot be used with --run and --foll"),
        ({"run": "r", "follow": True, "save_embeddings": "f"}, "--save_embeddings cannot be used"),
        ({"run": "r", "interpolate": ["0"], "save_scores": "f"}, "--save_scores cannot be used"),
        ({"run": "r", "timeout": 5.0}, "--timeout cannot be used with --run"),
        ({"embeddings": "e", "manual_dir": "d"} | FILES, "--manual_dir cannot be used with --emb"),
        ({"follow": True, "config": None}, "Give one of .*; given: --follow"),
        ({"embeddings": "e", "step": "5"} | FILES, "--step cannot be used with --embeddings"),
        ({"embeddings": "e", "ids": "i"} | FILES, "--ids cannot be used with --embeddings"),
        ({"scores": "s", "similarity": "dot"} | FILES, "--similarity cannot be .* --scores"),
        ({"rankings": "r", "partial": True} | FILES, "--partial cannot be used with --rankings"),
        ({"embeddings": "e", "examples": 3} | FILES, "pictures, which --embeddings with --anno"),
        ({"scores": "s", "examples": 3} | FILES, "use --embeddings or --scores with the --con"),
        (
            {"rankings": "r", "config": ConfigDict(), "examples": 3, "output": "o"},
            "--examples cannot be used with --rankings and --config",
        ),
        (
            {"embeddings": "e", "output": "o"},
            "--annotations, the folder of .*, is required with --embeddings, or --config, whose",
        ),
        (
            {"rankings": "r", "annotations": "a"},
            "--output, a folder .*, is required with --rankings",
        ),
    ],
)
def test_flags_that_do_not_go_together(values, message):
    flags.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(**values), pytest.raises(UserError, match=message):
        eval_main.main(["eval_main"])


def test_a_path_that_exists_is_one_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = "runs/lr=0.1,bs=32"
    (tmp_path / run).mkdir(parents=True)
    for values, message in [
        ({"run": run}, f"{run}/config.json is missing"),
        ({"run": f"{run},nowhere,else", "output": "o"}, r"do not exist: \['nowhere', 'else'\]"),
        ({"run": "runs/lr=0.1,bs=64"}, r"do not exist: \['runs/lr=0.1', 'bs=64'\]"),
        ({"run": f"{run},b", "follow": True}, "--follow takes one run; --run names several"),
    ]:
        test_flags_that_do_not_go_together(values, message)
