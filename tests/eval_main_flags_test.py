"""Arguments of the evaluation binary: its commands, and what cannot be combined."""

import pytest

from tests.saved_run import evaluate
from xmodal.apps.eval_arguments import parse
from xmodal.core.errors import UserError

FILES = {"annotations": "labels", "output": "out"}


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        (["--run=a"], "run", []),
        (["run", "a"], "run", []),
        (["--split=test", "--run", "a"], "run", []),
        (["--embeddings=e", "--annotations=l", "--output=o"], "files", []),
        (["files", "--scores=s", "--config=c", "--output=o"], "files", ["--config=c"]),
        (["--config", "c", "--config.seed=1", "--output=o"], "towers", None),
        (["towers", "--config=c", "--output=o", "--list_configs"], "towers", None),
    ],
)
def test_the_command_is_that_of_the_source(words, command, rest):
    args, others = parse(words, None)
    assert args.command == command
    assert getattr(args, "run", "a") == "a"
    assert others == ([word for word in words if "onfig" in word or word == "c"] if rest is None
                      else rest)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"run": "r", "follow": True, "save_embeddings": "f"}, "--save_embeddings and --save_sco"),
        ({"run": "r", "interpolate": ["0"], "save_scores": "f"}, "take one checkpoint of a run"),
        ({"embeddings": "e", "ids": "i"} | FILES, "--ids cannot be used with --embeddings and"),
        ({"scores": "s", "similarity": "dot"} | FILES, "--similarity cannot be .* --scores"),
        ({"rankings": "r", "partial": True} | FILES, "--partial cannot be used with --rankings"),
        ({"embeddings": "e", "examples": 3} | FILES, "--examples cannot be .* and --annotations"),
        (
            {"embeddings": "e", "output": "o"},
            "either --annotations, the folder of .*, or --config, whose dataset is read",
        ),
    ],
)
def test_arguments_that_do_not_go_together(values, message):
    with pytest.raises(UserError, match=message):
        evaluate(**values)


@pytest.mark.parametrize(
    "words",
    [[], ["--follow"], ["--run=r", "--follow", "--interpolate=0"], ["--rankings=r"], ["run", "r",
     "--examples=-1"], ["files", "--embeddings=e", "--scores=s", "--output=o"]],
)  # fmt: skip
def test_words_that_are_no_command(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(words, None)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


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
        with pytest.raises(UserError, match=message):
            evaluate(**values)
