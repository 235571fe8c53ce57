"""Keeps the index of a folder of pictures up to date, and resumes one whose build was killed.

INDEX                  the index, see `index`
INDEX.parts/000000 ... indexes of the pictures that were embedded since it was written
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
from typing import NamedTuple

from absl import logging
from etils import epath

from xmodal.api.model import Model
from xmodal.api.search.gallery import IndexGallery, embed_items
from xmodal.api.search.hubness import read_training_items
from xmodal.api.search.index import CARD, Index
from xmodal.api.search.items import from_images
from xmodal.core.errors import UserError
from xmodal.core.files import cache_folder, read_json
from xmodal.core.progress import progress
from xmodal.train.folder import folder_lock

_PART = 128  # Pictures embedded at a time; a kill loses at most these.


class Changes(NamedTuple):
    """Numbers of pictures that were new, changed or gone since the index was last written."""

    new: int
    changed: int
    gone: int


def default_place(folder: str, model: str) -> pathlib.Path:
    """Returns where the index of a folder by a model is kept, outside of the folder itself."""
    path = os.path.realpath(folder)
    source = os.path.realpath(model) if os.path.exists(model) else model
    digits = hashlib.sha256(os.fsencode(f"{path}\0{source}")).hexdigest()[:16]
    return cache_folder("search", f"{os.path.basename(path)}-{digits}")


def update(
    folder: str | os.PathLike, place: str | os.PathLike, model: Model
) -> tuple[Index, Changes]:
    """Returns the index of the pictures in a folder and its subfolders.

    Pictures are known by path, size and time; only those that are not known are embedded.

    Args:
      folder: any folder.
      place: its index, made by an earlier call; or where to write a new one.
      model: a model from `xmodal.load`; with other weights than before, all are embedded again.
    """
    root, path = os.path.realpath(folder), pathlib.Path(place)
    store = path.with_name(path.name + ".parts")
    items = from_images(root)
    files = {name: _describe(name) for name in items.names}
    with folder_lock.hold(store):
        before = _read(path, model, root) if path.exists() else None
        later = (_read(part, model, root) for part in sorted(store.glob("[!.]*")))
        parts = list(filter(None, (before, *later)))
        old = before.galleries["image"].files if before else {}
        both = old.keys() & files.keys()
        changed = sum(old[name] != files[name] for name in both)
        changes = Changes(len(files) - len(both), changed, len(old) - len(both))
        if before and not any(changes):
            _remove(store)
            return before, changes
        training = read_training_items(model)
        known = {entry for each in parts for entry in each.galleries["image"].files.items()}
        unknown = [name for name, facts in files.items() if (name, facts) not in known]
        with progress(f"Embedding {len(unknown):,} pictures of {root}", len(unknown)) as advance:
            for start in range(0, len(unknown), _PART):
                names = unknown[start : start + _PART]
                given = dataclasses.replace(items, names=names, read=names.__iter__)
                gallery = embed_items(model, "image", given)
                gallery.folder, gallery.files = root, {name: files[name] for name in names}
                if training:
                    gallery.trained = training.has_trained_on(gallery.names)
                parts.append(Index(model, {"image": gallery}))
                parts[-1].save(_next(store))
                advance(len(names))
        joined = IndexGallery.join([each.galleries["image"] for each in parts], files)
        index = Index(model, {"image": joined}).complete(training)
        index.save(new := _next(store))
        if path.exists():
            path.rename(_next(store))
        new.rename(path)
        _remove(store)
        return index, changes


def _read(place: pathlib.Path, model: Model, root: str) -> Index | None:
    """Returns an index of the folder; None if it is damaged, or of other weights."""
    card = epath.Path(place) / CARD
    content = read_json(card, "remove it.") if card.exists() else {"galleries": {}}
    if content["galleries"].get("image", {}).get("folder") != root:
        raise UserError(f"{place} exists, but is not an index of {root}: use another --index.")
    try:
        return Index.open(place, model=model)
    except UserError as error:
        logging.warning("All pictures of %s are embedded again: %s", place, error)
        return None


def _next(store: pathlib.Path) -> pathlib.Path:
    """The place of the next part; names that were used stay until all are removed."""
    return store / f"{len(list(store.glob('[!.]*'))):06d}"


def _remove(store: pathlib.Path) -> None:
    """Removes all parts. They are hidden first, so that no half-removed part is read later."""
    for part in store.glob("[!.]*"):
        part.rename(part.with_name(f".{part.name}"))
    shutil.rmtree(store)


def _describe(path: str) -> str:
    with contextlib.suppress(OSError):  # Embedding it says why.
        status = os.stat(path)
        return f"{status.st_size} {status.st_mtime_ns}"
    return ""
