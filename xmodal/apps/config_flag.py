"""Common parts of all commands: --config, a readable log, and user errors."""

import argparse
import ast
import importlib.util
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Callable
from typing import Any

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from xmodal.apps.arguments import literal
from xmodal.core.config import suggest
from xmodal.core.console import make_log_readable, readable_errors
from xmodal.core.errors import UserError
from xmodal.core.version import __version__


class _Literal(flags.ArgumentParser[Any]):
    """Reads an override as a Python literal, or else as a string.

    A value may change its type: None to a section, or a number to a schedule. The section's
    dataclass checks the result.
    """

    syntactic_help = "a Python literal, or a string"

    def parse(self, argument: Any) -> Any:
        """Returns the value; a value that is not a string comes from the config file."""
        return literal(argument) if isinstance(argument, str) else argument


class _Text(_Literal):
    """Reads an override of a string, which stays one unless it is `None` or a section."""

    def parse(self, argument: Any) -> Any:
        """Returns the value; a value that is not a string comes from the config file."""
        value = super().parse(argument)
        return value if value is None or isinstance(value, dict) else argument


for _type in (int, float, type(None), list, tuple, ConfigDict):
    config_flags.register_flag_parser_for_type(_type, _Literal())
config_flags.register_flag_parser_for_type(str, _Text())

CONFIG = config_flags.DEFINE_config_file(
    "config",
    None,
    "Experiment: a config of --list_configs, or your own file, FILE.py; with an argument, "
    "quickstart:i2t or FILE.py:ARGUMENT.",
    # Files omit keys that have a default; sections know their own keys.
    lock_config=False,
    accept_new_attributes=True,
)


def find_config_file(name: str) -> str:
    """Returns the path of a config file, with its argument.

    Args:
      name: `quickstart`, a file in the folder `configs`, or a path that ends in .py, which is
        returned unchanged; both with or without an `:ARGUMENT`.
    """
    file, colon, argument = name.partition(":")
    if file.endswith(".py"):
        return name
    if file not in (files := _files()):
        raise UserError(
            f"--config={file} names no config; {suggest([file], files)} The name of your own file "
            "must end in .py."
        )
    return f"{files[file]}{colon}{argument}"


def describe_configs() -> str:
    """Returns a line for every config file: its name, and the first line of its header."""
    heads = {
        name: (ast.get_docstring(ast.parse(_read(path))) or "").split("\n")[0]
        for name, path in _files().items()
    }
    width = max(map(len, heads))
    return "\n".join(f"{name:{width}}  {head}" for name, head in heads.items())


def _files() -> dict[str, str]:
    """Returns the path of every file in a folder `configs` that defines `get_config`.

    The folders are those of `from configs import base`: of the working directory, and installed.
    """
    spec = importlib.util.find_spec("configs")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files: dict[str, str] = {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob("*.py")):
            if "\ndef get_config(" in _read(path):
                files.setdefault(path.stem, os.fspath(path))
    return dict(sorted(files.items()))


def _read(path: str | os.PathLike) -> str:
    return pathlib.Path(path).read_text(encoding="utf-8")


flags.DEFINE_bool("version", False, "Print the version and exit.")
flags.DEFINE_bool("list_configs", False, "Print the configs of --config by name, and exit.")
_ANSWERS = {"version": lambda: f"xmodal {__version__}", "list_configs": describe_configs}


def run(
    main: Callable[[Any], None],
    parse: Callable[[list[str]], tuple[argparse.Namespace, list[str]]] | None = None,
) -> None:
    """Runs `main` with parsed flags; a `UserError` is printed without a trace, with exit code 1.

    Args:
      main: called with the arguments of `parse`, or else with the name of the program.
      parse: returns the arguments of a command, and the words that are flags of this module.
    """
    make_log_readable()
    args, argv = None, sys.argv
    with readable_errors():
        for name in (word.lstrip("-") for word in argv[1:] if word.startswith("-")):
            if name in _ANSWERS:  # Before anything else is checked.
                print(_ANSWERS[name]())
                return
        if parse is not None:
            args, rest = parse(argv[1:])
            argv = [argv[0], *rest]

    def main_for_users(argv: list[str]) -> None:
        if len(argv) > 1:
            raise app.UsageError(f"Unknown arguments {argv[1:]}; everything is a flag.")
        with readable_errors():
            main(argv if args is None else args)

    app.run(main_for_users, argv=argv, flags_parser=_parse_flags)


def read_config(*, has_model: bool = True) -> ConfigDict:
    """The config that --config names, with the overrides of the command line.

    The config file may define `complete(config, argument="")`, which then fills in what depends on
    them.

    Args:
      has_model: whether the config's model is used; if not, the file does not log its choice.
    """
    config = CONFIG.value
    try:
        config.lock()  # The flag reports a file that it could not open only on first use.
    except OSError as error:
        message = re.sub(r"^\[Errno \d+\] ", "", str(error).splitlines()[-1].strip())
        raise UserError(f"--config: {message}") from error
    verbosity = logging.get_verbosity()
    logging.set_verbosity(verbosity if has_model else logging.WARNING)
    try:
        with config.unlocked():
            call_config_file("complete", config)
    finally:
        logging.set_verbosity(verbosity)
    return config


def call_config_file(name: str, *arguments: Any) -> Any:
    """Returns the result of another function of the config file.

    Args:
      name: name of the function; None is returned if the file does not have it.
      *arguments: its arguments, before that of the file.
    """
    path, *argument = config_flags.get_config_filename(flags.FLAGS["config"]).split(":", 1)
    function = runpy.run_path(path).get(name)
    return None if function is None else function(*arguments, *argument)


def overrides() -> dict[str, Any]:
    """Returns the values that the command line sets, by path of the config."""
    return dict(config_flags.get_override_values(flags.FLAGS["config"]))


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(_with_paths(argv))
    except SystemExit as ended:
        if ended.code == 1:  # absl's --help and --helpfull.
            sys.exit(0)
        raise
    except UserError as error:
        sys.exit(f"Error: {error}")
    except flags.Error as error:
        text = str(error)
        if missing := re.match(r"flag --(\w+)=None: ", text):
            text = f"--{missing[1]} is missing."
            if missing[1] == CONFIG.name:
                text += " --list_configs lists those that came with the installation."
        # A config file rejects its argument with a ValueError, which comes with a full stack trace.
        *trace, last = text.splitlines()
        if trace and last.strip().startswith("ValueError: "):
            text = f"--config: {last.strip().removeprefix('ValueError: ')}"
        sys.exit(f"Error: {text}\nPass --helpshort to see the flags.")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # A config flag's error for an override of an unknown key, such as --config.bach_size=8.
        found: object = error
        while isinstance(found, Exception):
            found = found.args[0]
        sys.exit(f"Error: Unknown key in --config: {' '.join(str(found).split())}")


def _with_paths(argv: list[str]) -> list[str]:
    """Returns the arguments with the name of the config replaced by its path."""
    found = []
    for before, word in zip(["", *argv], argv, strict=False):
        flag, equals, value = word.partition("=")
        if equals and flag in ("--config", "-config"):
            word = f"{flag}={find_config_file(value)}"
        elif before in ("--config", "-config"):
            word = find_config_file(word)
        found.append(word)
    return found
