"""Hashes of the files in a checkpoint: libraries do not notice a changed byte in an array."""

import json

from etils import epath

from xmodal.core.atomic import write_atomically
from xmodal.core.checksums import sha256_of
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json

HASHES = "files.json"
# Written when the folder gets its final name; no arrays depend on them.
_LATER = ("_CHECKPOINT_METADATA", "commit_success.txt")


def save_hashes(folder: epath.Path) -> None:
    """Writes `FOLDER/files.json`, the hash of every file in a complete folder."""
    files = {name: path for name, path in files_in(folder).items() if name not in _LATER}
    hashes = {name: sha256_of(path) for name, path in files.items()}
    write_atomically(folder / HASHES, f"{json.dumps(hashes, indent=1)}\n")


def find_damage(folder: epath.Path, below: str | tuple[str, ...] = "") -> str:
    """Describes the first file that does not match its hash; "" if all match.

    A folder that does not exist has no damage.

    Args:
      folder: folder with `files.json`.
      below: subfolders to compare, such as "metrics/"; "" for all.
    """
    path = folder / HASHES
    if not path.exists():
        return f"{path} is missing" if folder.exists() else ""
    try:
        hashes: dict[str, str] = read_json(path, "")
    except UserError:
        hashes = {}
    if not hashes:
        return f"{path} is truncated"
    files = files_in(folder)
    for name, expected in hashes.items():
        if not name.startswith(below):
            continue
        if name not in files:
            return f"{folder / name} is missing"
        if sha256_of(files[name]) != expected:
            return f"{folder / name} has different bytes than were written"
    return ""


def files_in(folder: epath.Path) -> dict[str, epath.Path]:
    """Returns the files below a folder by relative path, without its hashes."""
    found: dict[str, epath.Path] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            found |= {f"{path.name}/{name}": file for name, file in files_in(path).items()}
        elif path.name != HASHES and not path.name.startswith(f".{HASHES}."):
            found[path.name] = path
    return found
