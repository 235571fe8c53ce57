"""The files that the systems of the ledger need: their folders, and which are missing."""

import importlib.util
import os
import pathlib
from collections.abc import Mapping, Sequence

from xmodal.apps.ledger.ledger_entries import Files, Ledger, System
from xmodal.core.errors import UserError

VARIABLE = "XMODAL_TEST_DATA"
Folders = Mapping[str, pathlib.Path]


def folders_of(ledger: Ledger, named: Sequence[str]) -> dict[str, pathlib.Path]:
    """Returns the folders that commands read, by the name that they have in braces.

    Args:
      ledger: its `files` name the folders.
      named: NAME=PATH, instead of the folder NAME in the folder that `XMODAL_TEST_DATA` names.
    """
    root = os.environ.get(VARIABLE)
    if root and not pathlib.Path(root).is_dir():
        raise UserError(f"{VARIABLE}={root} is not a folder.")
    names = {_brace(files.folder): files.folder for files in ledger.files.values() if files.folder}
    found = {name: pathlib.Path(root, folder) for name, folder in names.items()} if root else {}
    for each in named:
        name, _, path = each.partition("=")
        if name not in names or not pathlib.Path(path or "?").is_dir():
            known = ", ".join(sorted(names))
            raise UserError(f"--folder={each} must be NAME=PATH, a folder for one of {known}.")
        found[name] = pathlib.Path(path).absolute()
    for key, files in ledger.files.items():
        if files.package and (spec := importlib.util.find_spec(files.package)):
            found[key] = pathlib.Path(str(spec.origin)).parent
    return found


def missing_files(system: System, ledger: Ledger, folders: Folders) -> dict[str, list[str]]:
    """Returns the key of `Ledger.files` -> names that a system needs and `folders` lacks."""
    missing = {}
    for key in system.needs:
        files = ledger.files[key]
        folder = folders.get(brace_of(key, files))
        names = ledger.names_of(key, system)
        if absent := [name for name in names if not folder or not _exists(files, name, folder)]:
            missing[key] = absent
    return missing


def describe_missing(missing: Mapping[str, Sequence[str]], ledger: Ledger) -> str:
    """Returns a line per incomplete set of files: missing names and their source."""
    lines = []
    for key, names in missing.items():
        files = ledger.files[key]
        where = f"--folder={brace_of(key, files)}=PATH or {VARIABLE}"
        remedy = files.source if files.package else f"from {files.source}; {where} names the folder"
        verb = "is" if len(names) == 1 else "are"
        named = ", ".join(" or ".join(map(files.describe, name.split("|"))) for name in names)
        lines.append(f"{files.title}: {named} {verb} missing: {remedy}.")
    return "\n".join(lines)


def brace_of(key: str, files: Files) -> str:
    """Returns the name in braces by which commands call the folder, or package, of files."""
    return key if files.package else _brace(files.folder)


def _exists(files: Files, name: str, folder: pathlib.Path) -> bool:
    """Whether a folder has one of the alternatives of a name.

    Files of the folder of all folders may also be in one of these.
    """
    patterns = ("{}", "*/{}") if files.folder == "." else ("{}",)
    paths = (folder.glob(form.format(each)) for each in name.split("|") for form in patterns)
    return any(True for found in paths for _ in found)


def _brace(folder: str) -> str:
    """The folder's name in commands; the labels are in the folder of all folders."""
    return "labels" if folder == "." else folder
