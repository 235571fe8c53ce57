"""Files of scores that take long: a matrix and which of it is finished, in the user's cache folder.

A folder is named by the hash of everything that determines the scores, so that an evaluation that
was killed resumes; it is removed when the process that completed it ends.
"""

import atexit
import contextlib
import hashlib
import os
import pathlib
import shutil
import time
import uuid
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from xmodal.core import mesh as mesh_lib
from xmodal.core.files import cache_folder

_KEPT_SECONDS = 7 * 24 * 3600
# Folders that this process has completed, the last one at the end.
_complete: dict[pathlib.Path, None] = {}


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


class ScoreFile:
    """A matrix of scores on the disk, of which a part is finished; every process has its own.

    Attributes:
      scores: float32 [N, M], mapped.
      finished: bool, mapped; the parts that all processes have finished.
    """

    def __init__(
        self,
        key: str,
        shape: tuple[int, int],
        parts: tuple[int, ...],
        mesh: Mesh,
        folder: str | os.PathLike | None = None,
    ) -> None:
        """Opens the files of a key, or makes them; all processes of the mesh must call this.

        Args:
          key: see `hash_arrays`; "" for arrays in memory.
          shape: shape of the scores.
          parts: shape of the list of finished parts.
          mesh: devices of the processes.
          folder: parent of the file's folder; None for the user's cache folder.
        """
        self._place: pathlib.Path | None = None
        self.scores: Any = np.zeros(shape, np.float32)
        self.finished: Any = np.zeros(parts, bool)
        if not key:
            return
        root = _score_folder() if folder is None else pathlib.Path(folder)
        self._place = root / key
        own = self._place / f"process-{jax.process_index()}"
        self.scores = _open_array(own / "scores.npy", self.scores)
        self.finished = _open_array(own / "finished.npy", self.finished)
        if mesh_lib.process_count(mesh) > 1:
            every = multihost_utils.process_allgather(np.packbits(self.finished))
            bits = np.unpackbits(np.bitwise_and.reduce(every), count=self.finished.size)
            self.finished &= bits.astype(bool).reshape(parts)

    def finish(self, at: Any, parts: Any = True) -> None:
        """Lists parts at an index as finished, after their scores are on the disk."""
        if self._place is None:
            self.finished[at] |= parts
            return
        _complete.pop(self._place, None)
        self.scores.flush()
        self.finished[at] |= parts
        self.finished.flush()
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._place)  # Says that this evaluation is alive.

    def complete(self) -> None:
        """Removes the files with the process, and those before the last two now."""
        if self._place is not None:
            _complete.pop(self._place, None)
            _complete[self._place] = None
            _remove_complete(kept=2)


@atexit.register
def _remove_complete(kept: int = 0) -> None:
    for place in list(_complete)[: len(_complete) - kept]:
        # A mapped file can be read on after its name is gone.
        shutil.rmtree(place, ignore_errors=True)
        del _complete[place]


def _open_array(path: pathlib.Path, like: np.ndarray) -> np.ndarray:
    """A mapped array of the shape and type of another one, zero if it is new."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{uuid.uuid4().hex}-{path.name}")
        np.lib.format.open_memmap(new, "w+", like.dtype, like.shape).flush()
        new.rename(path)
    return np.lib.format.open_memmap(path, "r+")


def _score_folder() -> pathlib.Path:
    """The parent of all folders, without those that nobody resumed."""
    folder = cache_folder("scores")
    folder.mkdir(parents=True, exist_ok=True)
    for place in folder.iterdir():
        # Another process may remove them as well.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - place.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(place, ignore_errors=True)
    return folder
