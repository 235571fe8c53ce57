"""Reads the files of any model: embeddings, scores, candidates or ranked lists."""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.evals.scores import arrays
from xmodal.evals.scores.sources import Embeddings, RankedLists, Source, with_similarity
from xmodal.similarity import SIMILARITIES


def open_source(kind: str, given: Any, ids: Any = None, similarity: str | None = None) -> Source:
    """Reads a file by ids.

    Args:
      kind: "embeddings", "scores" or "rankings"; see `arrays.load_embeddings`,
        `arrays.load_scores` and `load_rankings`.
      given: the file, or its content in a mapping.
      ids: ids of a bare matrix of scores.
      similarity: name of the similarity that ranks embeddings; by default, that of the file.
    """
    if kind == "rankings":
        return load_rankings(given)
    if kind == "scores":
        return arrays.load_scores(given, ids)
    embeddings = arrays.load_embeddings(given)
    name = check_similarity(similarity or embeddings.similarity)
    return with_similarity(embeddings, {"name": name})


def check_similarity(name: str | None) -> str:
    """Returns the name of a similarity of vectors, which a model without modules can have."""
    if not name:
        raise UserError(
            f"Name the similarity that the model ranks by, one of {sorted(SIMILARITIES)}: they "
            "rank differently, so there is no default."
        )
    lookup("similarity", name, SIMILARITIES)
    return name


def modalities_of(source: Source) -> frozenset[str]:
    """Returns the modalities whose items a file has, of "image" and "text"."""
    return source.modalities if isinstance(source, Embeddings) else frozenset({"image", "text"})


def name_of(source: str | os.PathLike | Mapping[str, Any]) -> str:
    """Returns the name of a model's row from its file."""
    return "model" if isinstance(source, Mapping) else os.path.splitext(os.path.basename(source))[0]


def load_rankings(source: str | os.PathLike | Mapping[str, Mapping]) -> RankedLists:
    """Reads ranked lists in the format of the eccv_caption library.

    Args:
      source: JSON file `{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}`, or
        the same as mappings, most similar first. One direction may be missing.
    """
    place = arrays.place_of(source)
    content: Any = source if isinstance(source, Mapping) else arrays.read_file(place, _read_json)
    if not isinstance(content, Mapping) or not {"i2t", "t2i"} & set(content):
        found = sorted(content) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{place} holds {found}; rankings are expected under 'i2t' (image id -> caption "
            "ids) and 't2i' (caption id -> image ids)."
        )
    lists = {
        name: _read_lists(content[name], f"{name!r} in {place}") if name in content else None
        for name in ("i2t", "t2i")
    }
    return RankedLists(place, **lists)


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8-sig") as file:
        return json.loads(file.read())


def _read_lists(lists: Any, place: str) -> dict[int, np.ndarray]:
    found: dict[int, np.ndarray] = {}
    for key, ranked in lists.items():
        try:
            query, ids = int(key), np.asarray(ranked)
        except (TypeError, ValueError, OverflowError):
            query, ids = 0, np.zeros(0)
        named = ids.ndim == 1 and ids.dtype.kind in "iu" and len(np.unique(ids))
        if not named or named < len(ids) or query in found:
            raise UserError(
                f"The list of query {key!r} under {place} is {ranked!r:.80}; it must be a list of "
                "the integer ids of its items, best first, each once, one for each integer query "
                "id."
            )
        found[query] = ids.astype(np.int64)
    return found


def lines_of(path: str | os.PathLike) -> list[str]:
    """Returns the lines of a text file that are not empty, without spaces around them.

    Raises:
      OSError: the file cannot be read.
      UnicodeDecodeError: it is not UTF-8.
    """
    text = epath.Path(path).read_bytes().decode("utf-8-sig")  # Some editors write a mark.
    # Only line feeds end a line: texts may contain the other separators of splitlines().
    return [line for line in map(str.strip, text.split("\n")) if line]
