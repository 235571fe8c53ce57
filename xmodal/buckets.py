"""Paths on object stores, such as gs://BUCKET/runs, which have files but no folders."""

import os

from etils import epath


def is_on_bucket(path: epath.PathLike) -> bool:
    """Returns whether a path is on an object store."""
    return "://" in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
    """Returns an absolute path; a path on an object store is already absolute.

    `epath.Path.absolute` mistakes gs://BUCKET for a relative path.
    """
    path = epath.Path(path)
    return path if is_on_bucket(path) else path.absolute()
