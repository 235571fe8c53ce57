"""Parsers of commands, and arguments that several commands have."""

import argparse
import ast
import glob
import os
import warnings
from importlib.util import find_spec
from typing import Any

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import split_folders

DATASET = ("dataset", "config", "split", "data_dir", "manual_dir")


def make_parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of `xmodal COMMAND`; its help keeps the lines of the description."""
    return argparse.ArgumentParser(
        prog=f"xmodal {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def require_extra(extra: str, *modules: str) -> None:
    """Raises an error without the libraries of an extra in setup.py."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise UserError(f'{", ".join(missing)} is missing: pip install "xmodal[{extra}]"')


def add_texts(parser: argparse._ActionsContainer, **helps: str) -> None:
    """Adds `--NAME` with a text for every keyword, whose value is its help."""
    for name, help in helps.items():
        parser.add_argument(f"--{name}", help=help)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds where a web server is reached."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 for a free one")
    parser.add_argument("--url", default="", help="address of a proxy of this server")


def add_dataset(
    parser: argparse.ArgumentParser,
    help: str,
    *,
    required: bool = False,
    split: str = "test",
    config: str | None = "images",
    choice: argparse._ActionsContainer | None = None,
) -> None:
    """Adds the arguments that name a split of a prepared dataset.

    Args:
      parser: parser to extend.
      help: help of --dataset.
      required: whether --dataset is required.
      split: the split by default.
      config: the config by default; None for any that has what is needed.
      choice: group of arguments for --dataset, which excludes the others of the group.
    """
    (choice or parser).add_argument("--dataset", default="", required=required, help=help)
    parser.add_argument("--config", default=config, help="config of the dataset")
    parser.add_argument("--split", default=split, help="split of the dataset")
    parser.add_argument("--data_dir", default="", help="folder of prepared datasets")
    parser.add_argument("--manual_dir", default="", help="folder of the dataset's own files")


def dataset_section(args: argparse.Namespace) -> dict[str, str]:
    """Returns the arguments of `add_dataset`, as a section of a config with the split."""
    return {name: getattr(args, name) for name in DATASET}


def prepared_dir(args: argparse.Namespace) -> str | None:
    """Returns the folder of prepared datasets that the arguments of `add_dataset` name."""
    import data_prep

    lookup("--dataset", args.dataset, data_prep.BUILDERS)
    builder = data_prep.builder_class(args.dataset)
    if args.config:
        lookup("--config", args.config, builder.builder_configs)
    return builder.data_dir_of(args.config, args.data_dir or None, args.manual_dir or None)


def name_list(text: str) -> list[str]:
    """Reads names that are separated by commas."""
    return [name for name in text.split(",") if name]


def read_names(models: list[str]) -> dict[str, str]:
    """Returns name -> path for arguments `[NAME=]PATH`; a file is named without its ending."""
    folders: dict[str, str] = {}
    for given in models:
        name, equals, folder = given.partition("=")
        if not equals or glob.glob(given):  # The folder's own name has an "=".
            name, folder = os.path.basename(os.path.normpath(given)), given
            name = given if glob.has_magic(given) or len(split_folders(given)) > 1 else name
            name = os.path.splitext(name)[0] if os.path.isfile(given) else name
        if name in folders:
            raise UserError(f"{folders[name]} and {folder} are both {name!r}: write NAME=PATH.")
        folders[name] = folder
    return folders


def literal(text: str) -> Any:
    """Reads a Python literal, `true` or `false`; any other text is a string."""
    # Python warns about strings such as "3if".
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
        except (SyntaxError, ValueError):
            return text


def natural_int(text: str) -> int:
    """Reads an integer of at least 0."""
    return _read_int(text, 0)


def positive_int(text: str) -> int:
    """Reads an integer of at least 1."""
    return _read_int(text, 1)


def _read_int(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
    return int(text)
