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

from xmodal.api.bundles import card as bundle_card
from xmodal.api.loading import load
from xmodal.api.model import Model
from xmodal.api.search.approximate import Effort, read_lists, save_lists
from xmodal.api.search.gallery import IndexGallery, Quality
from xmodal.core.atomic import new_folder
from xmodal.core.checksums import check_files, sha256_of
from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.scores.ragged_tokens import RaggedTokens

CARD, FORMAT, VERSION = "index.json", "xmodal index", 5


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
            quality, has_lists = gallery.quality, gallery.lists is not None
            content["galleries"][kind] = {
                "count": len(gallery.names),
                "dataset": gallery.dataset,
                "folder": _common_folder(gallery.names) if kind == "image" else "",
                "effort": dataclasses.asdict(gallery.effort) if has_lists else None,
                "quality": None if quality is None else dataclasses.asdict(quality),
            }
            np.save(temporary / f"{kind}.npy", gallery.vectors)
            if gallery.tokens is not None:
                np.savez(temporary / f"{kind}_tokens.npz", **gallery.tokens.arrays())
            # In ASCII: names of files need not be UTF-8.
            names = json.dumps(list(gallery.names))
            (temporary / f"{kind}.json").write_text(names, encoding="utf-8")
            if gallery.left_out:
                faults = json.dumps(gallery.left_out, indent=2)
                (temporary / f"{kind}_left_out.json").write_text(faults + "\n", encoding="utf-8")
            if has_lists:
                save_lists(gallery.lists, temporary / f"{kind}_lists.faiss")
        content["checksums"] = {
            path.name: sha256_of(path) for path in sorted(epath.Path(temporary).iterdir())
        }
        (temporary / CARD).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


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
    try:
        content = parse_json_text((root / CARD).read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise UserError(
                f"{folder} is {content['format']!r} of version {content['version']!r}; this xmodal "
                f"reads {FORMAT!r} of version {VERSION}: build the index again."
            )
        # Before any library reads a file. Indexes of earlier versions have none.
        check_files(root, content.get("checksums", {}), "build the index again.")
        galleries = {
            kind: _read_gallery(root, kind, record) for kind, record in content["galleries"].items()
        }
        origin = {key: content[key] for key in ("model", "step", "similarity", "weights")}
        if not (isinstance(origin["model"], str) and isinstance(origin["step"], int | None)):
            raise TypeError(f"its model is {origin['model']!r:.40}, step {origin['step']!r:.40}")
    except UserError:
        raise
    except (AttributeError, *DAMAGE) as error:
        raise UserError(f"{folder} is damaged ({error}): build the index again.") from error
    if not isinstance(model, Model):
        model = _load_model(model or origin["model"], origin["step"])
    _check_model(folder, model, origin)
    return model, galleries


def _read_gallery(root: epath.Path, kind: str, record: Mapping[str, Any]) -> IndexGallery:
    if kind not in ("image", "caption"):
        raise ValueError(f"items of an unknown kind {kind!r:.40}")
    vectors = load_arrays(root / f"{kind}.npy", mmap_mode="r")
    names = parse_json_text((root / f"{kind}.json").read_text(encoding="utf-8"))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("its names are not a list of texts")
    if not len(vectors) == len(names) == record["count"]:
        raise ValueError(f"{len(vectors)} embeddings and {len(names)} names of {record['count']}")
    if not isinstance(record["dataset"], dict | None):
        raise TypeError(f"its dataset is {record['dataset']!r:.80}")
    if vectors.dtype != np.float32 or vectors.ndim not in (2, 3):
        raise TypeError(f"its embeddings are {vectors.dtype} {list(vectors.shape)}")
    effort, quality = record["effort"], record["quality"]
    tokens, faults = root / f"{kind}_tokens.npz", root / f"{kind}_left_out.json"
    left_out = parse_json_text(faults.read_text(encoding="utf-8")) if faults.exists() else {}
    if not isinstance(left_out, dict):
        raise TypeError(f"{faults.name} holds a {type(left_out).__name__}")
    return IndexGallery(
        names,
        vectors,
        dataset=record["dataset"],
        left_out=left_out,
        lists=None if effort is None else read_lists(root / f"{kind}_lists.faiss"),
        effort=_read_effort(effort),
        quality=None if quality is None else Quality(**quality),
        tokens=RaggedTokens(**load_arrays(tokens)) if tokens.exists() else None,
        folder=str(record["folder"]),
    )


def _common_folder(names: Sequence[str]) -> str:
    try:
        return os.path.commonpath([os.path.dirname(name) for name in names])
    except ValueError:  # Some are absolute, others are not.
        return os.sep


def _read_effort(effort: Mapping[str, Any] | None) -> Effort:
    found = Effort(**effort or {})
    if not all(type(value) is int and value > 0 for value in vars(found).values()):
        raise ValueError(f"its effort is {effort!r:.80}")
    return found


def _load_model(source: str | os.PathLike, step: int | None) -> Model:
    # A bundle of the run has no steps.
    if step is None or (epath.Path(source) / bundle_card.CARD).exists():
        return load(source)
    return load(source, step=step)


def _check_model(folder: str | os.PathLike, model: Model, origin: Mapping[str, Any]) -> None:
    expected = (origin["similarity"], origin["weights"])
    if (model.similarity_name, model.hash_weights()) != expected:
        raise UserError(
            f"The items of {folder} were not embedded by {model.name}: build the "
            "index again, or pass its own model."
        )
