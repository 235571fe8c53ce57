"""Files of scores that take long: a matrix and which of it is finished, in the user's cache folder.

A folder is named by the hash of everything that determines the scores, so that an evaluation that
was killed resumes; it is removed when the process that completed it ends.
"""

import atexit
import contextlib
import hashlib
import math
import pathlib
import shutil
import time
import uuid
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.atomic import rename_new
from xmodal.core.cache_folder import cache_folder
from xmodal.core.errors import UserError

_KEPT_SECONDS = 7 * 24 * 3600
_AGREED = 1 << 20  # Bytes per device that processes exchange at once.
MATRIX, FINISHED = "scores.npy", "finished.npy"


def hash_arrays(settings: str, arrays: Iterable[np.ndarray], params: Any) -> str:
    """Returns the name of a folder, a hash of settings, arrays and a tree of parameters."""
    digest = hashlib.sha256(settings.encode())
    arrays = list(arrays)
    for path, leaf in jax.tree.leaves_with_path(params):
        digest.update(jax.tree_util.keystr(path).encode())
        arrays.append(np.asarray(leaf))
    for array in arrays:
        digest.update(repr((array.shape, array.dtype)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]


def open_array(path: pathlib.Path, shape: tuple[int, ...], dtype: type) -> np.memmap:
    """Returns a mapped array, zero if it is new; processes that make it at once get the same file.

    Raises:
      UserError: the disk has no space for it.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        needed, free = math.prod(shape) * np.dtype(dtype).itemsize, shutil.disk_usage(path.parent)
        if free.free < needed:
            raise UserError(
                f"The scores of all pairs take {needed / 1e9:.1f} GB, but {path.parent} has only "
                f"{free.free / 1e9:.1f} GB left: free space, or set XDG_CACHE_HOME to a folder on "
                "a larger disk."
            )
        new = path.with_name(f"{uuid.uuid4().hex}-{path.name}")
        np.lib.format.open_memmap(new, "w+", dtype, shape).flush()
        with contextlib.suppress(FileExistsError):  # Another process has mapped its file.
            rename_new(new, path)
        new.unlink(missing_ok=True)
    return np.lib.format.open_memmap(path, "r+")


def finished_everywhere(finished: np.ndarray, mesh: Mesh) -> np.ndarray:
    """Returns the entries that all processes have finished, bool of the shape of this one's.

    All processes must call this.
    """
    processes = mesh_lib.process_count(mesh)
    if processes == 1:
        return finished
    packed = np.packbits(finished)
    for start in range(0, len(packed), _AGREED):
        part = packed[None, start : start + _AGREED]
        own = {"bits": np.repeat(part, mesh.size // processes, axis=0)}
        found = mesh_lib.to_host(mesh_lib.global_batch(own, mesh), mesh)["bits"]
        part[0] = np.bitwise_and.reduce(found)
    bits = np.unpackbits(packed, count=finished.size)
    return bits.astype(bool).reshape(finished.shape)


def score_folder() -> pathlib.Path:
    """Returns the parent of all folders, without those that nobody resumed."""
    folder = cache_folder("scores")
    folder.mkdir(parents=True, exist_ok=True)
    for place in folder.iterdir():
        # Of evaluations that were killed and never resumed; another process may remove them, too.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - place.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(place, ignore_errors=True)
    return folder


# Matrices that this process has completed.
_complete: dict[pathlib.Path, None] = {}


def _remove_complete() -> None:
    for place in _complete:
        shutil.rmtree(place, ignore_errors=True)


def keep_at_exit(root: pathlib.Path, key: str) -> None:
    """Keeps a matrix that `remove_at_exit` took for complete, while more of it is computed."""
    _complete.pop(root / key, None)


def remove_at_exit(root: pathlib.Path, key: str) -> None:
    """Removes the matrix with the process, and those before the last two now."""
    if not _complete:
        atexit.register(_remove_complete)
    place = root / key
    _complete.pop(place, None)
    _complete[place] = None
    for old in list(_complete)[:-2]:
        # A mapped file can be read on after its name is gone.
        shutil.rmtree(old, ignore_errors=True)
        del _complete[old]
