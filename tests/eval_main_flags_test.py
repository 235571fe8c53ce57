"""Arguments of the evaluation binary: its commands, and what cannot be combined."""

import pytest

from xmodal.apps.eval_arguments import parse


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
