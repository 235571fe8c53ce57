"""`xmodal search FOLDER`: builds the index of a folder of pictures, or brings it up to date."""

import argparse
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from xmodal.core.errors import UserError

if TYPE_CHECKING:
    from xmodal.api.search.index import Index

_PACKAGED = "pip:efficientnet_lite2"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the command `folder`, whose name `with_command` supplies."""
    parser = commands.add_parser(
        "folder", help="`xmodal search FOLDER`: index the pictures of a folder, and serve them"
    )
    parser.add_argument("folder", help="a folder; only new and changed pictures are embedded")
    parser.add_argument(
        "--model",
        default=_PACKAGED,
        help=f"a run, bundle or published CLIP or SigLIP, for searches by words; {_PACKAGED}, the "
        "default, finds pictures by pictures",
    )
    parser.add_argument("--index", help="folder of the index; default: in ~/.cache/xmodal/search")
    parser.add_argument("--no_serve", action="store_true", help="only write the index")
    return parser


def with_command(arguments: list[str], commands: Collection[str]) -> list[str]:
    """Returns arguments with the command `folder` if they name a folder before any command."""
    for each in arguments:
        if each in commands:
            return arguments
        if os.path.isdir(each):
            return ["folder", *arguments]
    if arguments and not arguments[0].startswith("-"):
        known = ", ".join(commands)
        raise UserError(f"{arguments[0]!r} is neither a folder nor one of the commands {known}.")
    return arguments


def update(args: argparse.Namespace) -> "Index":
    """Returns the up-to-date index of a folder, and prints what changed."""
    from xmodal.api.loading import load
    from xmodal.api.search import folder_index
    from xmodal.api.search.formats import describe_index

    args.folder = os.path.realpath(args.folder)
    args.index = args.index or str(folder_index.default_place(args.folder, args.model))
    model = load(args.model)
    index, changes = folder_index.update(args.folder, args.index, model)
    print(f"{args.folder}: {changes.new:,} new, {changes.changed:,} changed, {changes.gone:,} gone")
    print(describe_index(index, args.index))
    if "text" not in model.modalities:
        print(
            f"{model.name} finds pictures by pictures; for words, pass --model=MODEL: a run, a "
            "bundle, or a folder of a published CLIP or SigLIP."
        )
    return index
