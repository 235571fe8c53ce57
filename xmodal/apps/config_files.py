"""The config files that come with the project, by name: `--config=quickstart:i2t`."""

import ast
import importlib.util
import os
import pathlib

from xmodal.core.config import suggest
from xmodal.core.errors import UserError


def find_config_file(name: str) -> str:
    """Returns the path of a config file, with its argument.

    Args:
      name: `quickstart`, a file in the folder `configs`, or a path that ends in .py, which is
        returned unchanged; both with or without an `:ARGUMENT`.

    Raises:
      UserError: there is no such config; the known ones are listed.
    """
    file, colon, argument = name.partition(":")
    files = _files()
    if not file.endswith(".py"):
        if file not in files:
            raise UserError(
                f"--config={file} names no config; {suggest([file], files)} The name of your own "
                "file must end in .py."
            )
        return f"{files[file]}{colon}{argument}"
    stem = pathlib.Path(file).stem
    if stem in files and not os.path.exists(file):
        raise UserError(
            f"--config: {file} does not exist; --config={stem}{colon}{argument} is the config that "
            "came with the installation."
        )
    return name


def describe_configs() -> dict[str, str]:
    """Returns the first line of every config file by name."""
    return {
        name: (ast.get_docstring(ast.parse(_read(path))) or "").split("\n")[0]
        for name, path in _files().items()
    }


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
