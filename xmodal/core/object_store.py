"""Paths on object stores, such as gs://BUCKET/runs, which have files but no folders."""

import os

from etils import epath


def is_in_object_store(path: epath.PathLike) -> bool:
    """Returns whether a path is on an object store."""
    return "://" in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
    """Returns an absolute path; a path on an object store is already absolute.

    `epath.Path.absolute` mistakes gs://BUCKET for a relative path.
    """
    path = epath.Path(path)
    return path if is_in_object_store(path) else path.absolute()


def split_folders(text: str) -> list[str]:
    """Returns the folders of a list `A,B`; a folder that exists may have commas in its name."""
    if "://" not in text and os.path.exists(text):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def move_folder(source: epath.Path, target: epath.Path) -> None:
    """Moves a folder; on an object store, which has none to rename, file by file.

    A move that was killed leaves the source, perhaps without some files, and can be repeated.
    """
    if target.exists():
        target.rmtree()
    target.parent.mkdir(exist_ok=True)
    if not is_in_object_store(source):
        source.rename(target)
        return
    _copy_files(source, target)
    source.rmtree()


def _copy_files(source: epath.Path, target: epath.Path) -> None:
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.is_dir():
            _copy_files(path, target / path.name)
        else:
            path.copy(target / path.name, overwrite=True)
