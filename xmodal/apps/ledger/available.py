"""Which files of the ledger this machine has."""

import importlib.util
import itertools
import os
import pathlib
from collections.abc import Mapping, Sequence

from etils import epath

from xmodal.apps.ledger.ledger_entries import Files, Ledger, System
from xmodal.core.checksums import sha256_of
from xmodal.core.errors import UserError

VARIABLE = "XMODAL_TEST_DATA"


def folders_of(ledger: Ledger, named: Sequence[str]) -> dict[str, pathlib.Path]:
    """Returns the folders that commands read, by the name that they have in braces.

    Args:
      ledger: its `files` name the folders.
      named: NAME=PATH, in place of the folder NAME in the folder that `XMODAL_TEST_DATA` names.

    Raises:
      UserError: a name is unknown, or a folder does not exist.
    """
    root = os.environ.get(VARIABLE)
    if root and not pathlib.Path(root).is_dir():
        raise UserError(f"{VARIABLE}={root} is not a folder.")
    known = {files.folder for files in ledger.files.values() if files.folder}
    names = {_brace(folder): folder for folder in known}
    found = {name: pathlib.Path(root, folder) for name, folder in names.items()} if root else {}
    for each in named:
        name, _, path = each.partition("=")
        if name not in names:
            raise UserError(f"--folder={each}: the folders are {', '.join(sorted(names))}.")
        if not path or not pathlib.Path(path).is_dir():
            raise UserError(f"--folder={each}: {path!r} is not a folder.")
        found[name] = pathlib.Path(path).absolute()
    for key, files in ledger.files.items():
        if files.package and (spec := importlib.util.find_spec(files.package)):
            found[key] = pathlib.Path(str(spec.origin)).parent
    return found


def missing_files(
    system: System, ledger: Ledger, folders: Mapping[str, pathlib.Path]
) -> dict[str, list[str]]:
    """Returns the key of `Ledger.files` -> names that a system needs and `folders` lacks."""
    missing = {}
    for key in system.needs:
        files = ledger.files[key]
        folder = folders.get(brace_of(key, files))
        absent = [
            name
            for name in ledger.names_of(key, system)
            if folder is None or not any(_located(files, name, folder))
        ]
        if absent:
            missing[key] = absent
    return missing


def describe_missing(missing: Mapping[str, Sequence[str]], ledger: Ledger) -> str:
    """Returns a line per incomplete set of files: missing names and their source."""
    lines = []
    for key, names in missing.items():
        files = ledger.files[key]
        where = f"--folder={brace_of(key, files)}=PATH or {VARIABLE}"
        remedy = files.source if files.package else f"from {files.source}; {where} names the folder"
        described = ", ".join(map(files.describe, names))
        lines.append(f"{files.title}: {described} {_are(names)} missing: {remedy}.")
    return "\n".join(lines)


def check_files(system: System, ledger: Ledger, folders: Mapping[str, pathlib.Path]) -> None:
    """Raises an error unless files have their known sizes and checksums.

    Raises:
      UserError: names the file.
    """
    for key in system.needs:
        files = ledger.files[key]
        found = [
            _located(files, name, folders[brace_of(key, files)])
            for name in ledger.names_of(key, system)
        ]
        for name, path in itertools.chain.from_iterable(each.items() for each in found):
            size, checksum = files.bytes.get(name), files.sha256.get(name)
            if size not in (None, path.stat().st_size):
                raise UserError(
                    f"{path} has {path.stat().st_size:,} bytes instead of {size:,}: download it "
                    f"again from {files.source}."
                )
            if checksum and not _has_checksum(path, checksum):
                raise UserError(
                    f"{path} does not have the SHA-256 {checksum}: download it again from "
                    f"{files.source}."
                )


def brace_of(key: str, files: Files) -> str:
    """Returns the name in braces by which commands call the folder, or package, of files."""
    return key if files.package else _brace(files.folder)


def _has_checksum(path: pathlib.Path, checksum: str) -> bool:
    return sha256_of(epath.Path(path)).startswith(checksum.removesuffix("..."))


def _located(files: Files, name: str, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the alternatives of a name that exist, and the file or folder of each.

    Only the folder of all folders is read with those in it.
    """
    patterns = ("{}", "*/{}") if files.folder == "." else ("{}",)
    found = {}
    for each in files.alternatives(name):
        paths = (path for form in patterns for path in sorted(folder.glob(form.format(each))))
        if path := next(paths, None):
            found[each] = path
    return found


def _brace(folder: str) -> str:
    """The folder's name in commands; the labels are in the folder of all folders."""
    return "labels" if folder == "." else folder


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
