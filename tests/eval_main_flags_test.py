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
        (["--embeddings=e", "--annotations=l", "--output=o"], "files", []),
        (["files", "--scores=s", "--config=c", "--output=o"], "files", ["--config=c"]),
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
        ({"embeddings": "e", "ids": "i"} | FILES, "--ids cannot be used with --embeddings and"),
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
    [[], ["--run=r", "--follow", "--interpolate=0"],],
)  # fmt: skip
def test_words_that_are_no_command(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(words, None)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
