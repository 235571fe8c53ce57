"""Hashes of the files in a checkpoint: libraries read a changed byte of an array as it is."""

import hashlib
import json

from etils import epath

from xmodal.atomic import replacing

HASHES = "files.json"
# Written when the folder gets its final name; no array depends on them.
_LATER = ("_CHECKPOINT_METADATA", "commit_success.txt")
_CHUNK = 2**22


def save_hashes(folder: epath.Path) -> None:
    """Writes `FOLDER/files.json`, the hash of every file below a folder that is complete."""
    files = {name: path for name, path in _files(folder).items() if name not in _LATER}
    hashes = {name: _hash(path) for name, path in files.items()}
    with replacing(folder / HASHES) as file:
        file.write(f"{json.dumps(hashes, indent=1)}\n".encode())


def find_damage(folder: epath.Path, below: str = "") -> str:
    """Returns the first file that is not as it was hashed, in words; "" where all are.

    A folder without hashes, of a run of before, passes; so does one that does not exist.

    Args:
      folder: with `files.json`.
      below: folder in it, the only one to compare: "metrics/".
    """
    path = folder / HASHES
    if not path.exists():
        return ""
    try:
        hashes: dict[str, str] = json.loads(path.read_text())
    except ValueError:
        hashes = {}
    if not isinstance(hashes, dict) or not hashes:
        return f"{path} is torn"
    files = _files(folder)
    for name, expected in hashes.items():
        if not name.startswith(below):
            continue
        if name not in files:
            return f"{folder / name} is missing"
        if _hash(files[name]) != expected:
            return f"{folder / name} has other bytes than were written"
    return ""


def _files(folder: epath.Path) -> dict[str, epath.Path]:
    found: dict[str, epath.Path] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            found |= {f"{path.name}/{name}": file for name, file in _files(path).items()}
        elif path.name != HASHES and not path.name.startswith(f".{HASHES}."):
            found[path.name] = path
    return found


def _hash(path: epath.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
