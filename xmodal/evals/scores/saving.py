"""Writes the npz files of embeddings and scores that `arrays` reads, whole or not at all."""

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.result_files import check_writable, write_file
from xmodal.core.tree_paths import leaves_by_path
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.scores import arrays
from xmodal.evals.scores.sources import Candidates, Embeddings, FileOrigin, ScoreMatrix
from xmodal.similarity import LATE_INTERACTIONS


def save_embeddings(path: str | os.PathLike, embeddings: Embeddings) -> None:
    """Writes the file that `arrays.load_embeddings` reads."""
    _save(path, _arrays_of(embeddings), embeddings.origin)


def save_scores(path: str | os.PathLike, found: Candidates | ScoreMatrix) -> None:
    """Writes the file that `arrays.load_scores` reads."""
    saved: dict[str, Any] = {"image_ids": found.image_ids, "caption_ids": found.caption_ids}
    if isinstance(found, ScoreMatrix):
        saved["scores"] = found.matrix
    else:
        saved[arrays.DEFINITION] = np.array(found.definition)
        for direction, (items, scores) in found.directions.items():
            saved |= {f"{direction}_candidates": items, f"{direction}_scores": scores}
        saved |= {} if found.first is None else _arrays_of(found.first)
    _save(path, saved, found.origin)


def check_savable(path: str | os.PathLike) -> None:
    """Raises an error if a name does not end in .npz, or its folder is not writable."""
    place = epath.Path(path)
    if place.suffix != ".npz":
        raise UserError(f"Arrays are saved as npz: {path} must end in .npz.")
    check_writable(place.parent)


def _save(path: str | os.PathLike, saved: Mapping[str, Any], origin: FileOrigin | None) -> None:
    check_savable(path)
    if origin is not None:
        fields = {"model": origin.model, "records": dict(origin.records)}
        saved = {**saved, arrays.ORIGIN: np.array(json.dumps(fields))}
    buffer = io.BytesIO()
    np.savez(buffer, **saved)
    write_file(path, buffer.getvalue())


def _arrays_of(embeddings: Embeddings) -> dict[str, Any]:
    found: dict[str, Any] = {arrays.SIMILARITY: np.array(embeddings.similarity)}
    ids = {"image": embeddings.image_ids, "text": embeddings.caption_ids}
    for modality, vectors in embeddings.by_modality.items():
        found |= {f"{KINDS[modality]}_ids": ids[modality], f"{KINDS[modality]}_embeddings": vectors}
    found |= {f"{KINDS[modality]}_log_sigma": x for modality, x in embeddings.log_sigma.items()}
    prefix = ""
    if embeddings.similarity in LATE_INTERACTIONS:
        prefix, found[arrays.OPTIONS] = arrays.PARAMETERS, np.array(json.dumps(embeddings.options))
        for modality, tokens in embeddings.tokens.items():
            found[f"{KINDS[modality]}_tokens"] = tokens.values
            found[f"{KINDS[modality]}_token_counts"] = tokens.lengths
    leaves = leaves_by_path(embeddings.parameters)
    found |= {f"{prefix}{path}": np.asarray(x, np.float32) for path, x in leaves.items()}
    for task, predictions in embeddings.predictions.items():
        parts = zip(("images", "captions"), predictions.split(), strict=True)
        found |= {f"{arrays.PREDICTIONS}{task}/{k}": part for k, part in parts if part is not None}
    return found
