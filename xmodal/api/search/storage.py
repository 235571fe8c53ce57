"""Folders of indexes.

index.json                      format, version, the model and the hash of its weights; per kind:
                                count, dataset, effort, recall; the checksums of all other files
image.npy, caption.npy          embeddings, float32 [N, D] or [N, K, D]
image_tokens.npz, ...           their tokens, if the similarity compares them
image.json, caption.json        names of the items, a list
image_left_out.json             names and faults of pictures that cannot be read, if there are any
image_lists.faiss, ...          of approximate search, in the format of faiss
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.api.bundles import CARD as BUNDLE
from xmodal.api.loading import load
from xmodal.api.model import Model
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.nearest import import_faiss
from xmodal.core.errors import UserError
from xmodal.core.files import check_files, new_folder, read_json, sha256_of
from xmodal.core.untrusted.saved_arrays import load_arrays
from xmodal.evals.scores.ragged_tokens import RaggedTokens

CARD, FORMAT = "index.json", {"format": "xmodal index", "version": 6}
_REMEDY = "build the index again."
_FACTS = ("dataset", "effort", "recall")  # Fields of a gallery in the card.


def write_index(
    folder: str | os.PathLike, model: Model, galleries: Mapping[str, IndexGallery]
) -> None:
    """Writes a folder, which gets its name when it is complete."""
    if epath.Path(folder).exists():
        raise UserError(f"{folder} already exists: use another --output, or remove it.")
    source = os.path.abspath(model.source) if os.path.exists(model.source) else model.source
    with new_folder(folder) as temporary:
        records = {kind: _write_gallery(temporary, kind, each) for kind, each in galleries.items()}
        content = FORMAT | {
            "model": source,
            "step": model.step,
            "similarity": model.similarity_name,
            "weights": model.hash_weights(),
            "galleries": records,
            "checksums": {path.name: sha256_of(path) for path in sorted(temporary.iterdir())},
        }
        (temporary / CARD).write_text(json.dumps(content, indent=2) + "\n")


def _write_gallery(folder: epath.Path, kind: str, gallery: IndexGallery) -> dict[str, Any]:
    """Writes the files of a gallery, and returns its record in the card."""
    np.save(folder / f"{kind}.npy", gallery.vectors)
    if gallery.tokens is not None:
        np.savez(folder / f"{kind}_tokens.npz", **gallery.tokens.arrays())
    # In ASCII: names of files need not be UTF-8.
    (folder / f"{kind}.json").write_text(json.dumps(list(gallery.names)))
    if gallery.left_out:
        faults = json.dumps(gallery.left_out, indent=2)
        (folder / f"{kind}_left_out.json").write_text(faults + "\n")
    if gallery.lists:
        lists = import_faiss().serialize_index(gallery.lists)
        (folder / f"{kind}_lists.faiss").write_bytes(lists.tobytes())
    facts = {name: getattr(gallery, name) for name in _FACTS}
    return {"count": len(gallery.names), **facts}


def read_index(
    folder: str | os.PathLike, model: Model | str | os.PathLike | None = None
) -> tuple[Model, dict[str, IndexGallery]]:
    """Returns the model and the items of a folder.

    Args:
      folder: folder written by `write_index`.
      model: model of the items, or its folder; by default its original location.
    """
    root = epath.Path(folder)
    if not (root / CARD).exists():
        raise UserError(
            f"{folder} is not an index: {CARD} is missing. Make one with "
            "`python -m xmodal search build`."
        )
    content = read_json(root / CARD, _REMEDY)
    if not FORMAT.items() <= content.items():
        found = {key: content.get(key) for key in FORMAT}
        raise UserError(f"{folder} is {found}, but this xmodal reads {FORMAT}: {_REMEDY}")
    check_files(root, content["checksums"], _REMEDY)
    records = content["galleries"].items()
    galleries = {kind: _read_gallery(root, kind, record) for kind, record in records}
    if not isinstance(model, Model):
        place, step = epath.Path(model or content["model"]), content["step"]
        # A bundle of the run has no steps.
        model = load(place) if step is None or (place / BUNDLE).exists() else load(place, step=step)
    if model.hash_weights() != content["weights"]:
        raise UserError(
            f"The items of {folder} were not embedded by {model.name}: build the "
            "index again, or pass its own model."
        )
    return model, galleries


def _read_gallery(root: epath.Path, kind: str, record: Mapping[str, Any]) -> IndexGallery:
    tokens, faults, lists = (
        root / f"{kind}_{name}" for name in ("tokens.npz", "left_out.json", "lists.faiss")
    )
    index = None
    if lists.exists():
        index = import_faiss().deserialize_index(np.frombuffer(lists.read_bytes(), np.uint8))
    return IndexGallery(
        json.loads((root / f"{kind}.json").read_text()),
        load_arrays(root / f"{kind}.npy", mmap_mode="r"),
        left_out=read_json(faults, _REMEDY) if faults.exists() else {},
        lists=index,
        tokens=RaggedTokens(**load_arrays(tokens)) if tokens.exists() else None,
        **{name: record[name] for name in _FACTS},
    )
