"""Folders of indexes.

index.json                      format, version, the model and the hash of its weights; per kind:
                                count, dataset, folder of the pictures, quality; the checksums of
                                all other files
image.npy, caption.npy          embeddings, float32 [N, D] or [N, K, D]
image_tokens.npz, ...           their tokens, if the similarity compares them
image.json, caption.json        names of the items, a list
image_left_out.json             names and faults of pictures that cannot be read, if there are any
image_lists.faiss, ...          of approximate search, in the format of faiss
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.api.bundles import CARD as BUNDLE
from xmodal.api.loading import load
from xmodal.api.model import Model
from xmodal.api.search.approximate import SearchParameters, read_lists, save_lists
from xmodal.api.search.gallery import IndexGallery, Quality
from xmodal.core.atomic import new_folder
from xmodal.core.checksums import check_files, sha256_of
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.scores.ragged_tokens import RaggedTokens

CARD, FORMAT, VERSION = "index.json", "xmodal index", 5
_REMEDY = "build the index again."


def write_index(
    folder: str | os.PathLike, model: Model, galleries: Mapping[str, IndexGallery]
) -> None:
    """Writes a folder, which gets its name when it is complete.

    Raises:
      UserError: the folder already exists.
    """
    if epath.Path(folder).exists():
        raise UserError(f"{folder} already exists: use another --output, or remove it.")
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": os.path.abspath(model.source) if os.path.exists(model.source) else model.source,
        "step": model.step,
        "similarity": model.similarity_name,
        "weights": model.hash_weights(),
        "galleries": {},
    }
    with new_folder(folder) as temporary:
        for kind, gallery in galleries.items():
            quality = gallery.quality and dataclasses.asdict(gallery.quality)
            content["galleries"][kind] = {
                "count": len(gallery.names),
                "dataset": gallery.dataset,
                "folder": _common_folder(gallery.names) if kind == "image" else "",
                "effort": dataclasses.asdict(gallery.effort) if gallery.lists else None,
                "quality": quality,
            }
            np.save(temporary / f"{kind}.npy", gallery.vectors)
            if gallery.tokens is not None:
                np.savez(temporary / f"{kind}_tokens.npz", **gallery.tokens.arrays())
            # In ASCII: names of files need not be UTF-8.
            (temporary / f"{kind}.json").write_text(json.dumps(list(gallery.names)))
            if gallery.left_out:
                faults = json.dumps(gallery.left_out, indent=2)
                (temporary / f"{kind}_left_out.json").write_text(faults + "\n")
            if gallery.lists:
                save_lists(gallery.lists, temporary / f"{kind}_lists.faiss")
        content["checksums"] = {
            path.name: sha256_of(path) for path in sorted(epath.Path(temporary).iterdir())
        }
        (temporary / CARD).write_text(json.dumps(content, indent=2) + "\n")


def read_index(
    folder: str | os.PathLike, model: Model | str | os.PathLike | None = None
) -> tuple[Model, dict[str, IndexGallery]]:
    """Returns the model and the items of a folder.

    Args:
      folder: folder written by `write_index`.
      model: model of the items, or its folder; by default its original location.

    Raises:
      UserError: it is not an index, is damaged, or its items were embedded by another model.
    """
    root = epath.Path(folder)
    if not (root / CARD).exists():
        raise UserError(
            f"{folder} is not an index: {CARD} is missing. Make one with "
            "`python -m xmodal search build`."
        )
    content = read_json(root / CARD, _REMEDY)
    if (content.get("format"), content.get("version")) != (FORMAT, VERSION):
        raise UserError(
            f"{folder} is {content.get('format')!r} of version {content.get('version')!r}; this "
            f"xmodal reads {FORMAT!r} of version {VERSION}: {_REMEDY}"
        )
    # Before any library reads a file.
    check_files(root, content.get("checksums", {}), _REMEDY)
    try:
        galleries = {
            kind: _read_gallery(root, kind, record) for kind, record in content["galleries"].items()
        }
        source, step = content["model"], content["step"]
        expected = content["similarity"], content["weights"]
    except UserError:
        raise
    except DAMAGE as error:
        raise UserError(f"{folder} is damaged ({error}): {_REMEDY}") from error
    if not isinstance(model, Model):
        place = epath.Path(model or source)
        # A bundle of the run has no steps.
        model = load(place) if step is None or (place / BUNDLE).exists() else load(place, step=step)
    if (model.similarity_name, model.hash_weights()) != expected:
        raise UserError(
            f"The items of {folder} were not embedded by {model.name}: build the "
            "index again, or pass its own model."
        )
    return model, galleries


def _read_gallery(root: epath.Path, kind: str, record: Mapping[str, Any]) -> IndexGallery:
    names = json.loads((root / f"{kind}.json").read_text())
    vectors = load_arrays(root / f"{kind}.npy", mmap_mode="r")
    if len(vectors) != len(names):
        raise ValueError(f"{len(vectors)} embeddings and {len(names)} names")
    tokens, faults = root / f"{kind}_tokens.npz", root / f"{kind}_left_out.json"
    quality, effort = record["quality"], record["effort"]
    return IndexGallery(
        names,
        vectors,
        dataset=record["dataset"],
        left_out=read_json(faults, _REMEDY) if faults.exists() else {},
        lists=effort and read_lists(root / f"{kind}_lists.faiss"),
        effort=SearchParameters(**effort or {}),
        quality=quality and Quality(**quality),
        tokens=RaggedTokens(**load_arrays(tokens)) if tokens.exists() else None,
        folder=record["folder"],
    )


def _common_folder(names: Sequence[str]) -> str:
    try:
        return os.path.commonpath([os.path.dirname(name) for name in names])
    except ValueError:  # Some are absolute, others are not.
        return os.sep
