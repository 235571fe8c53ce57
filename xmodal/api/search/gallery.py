"""Embeds the items of an index, and holds them in memory."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.api.item_embeddings import ItemEmbeddings
from xmodal.api.model import Model
from xmodal.api.search.approximate import SearchParameters
from xmodal.api.search.items import SearchItems
from xmodal.core import processes
from xmodal.core.errors import UserError
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.score_rows import count_not_finite


@dataclasses.dataclass(frozen=True)
class Quality:
    """Approximate search compared with exact search.

    Attributes:
      recall: share of the exact top ten that is found.
      exact_ms: milliseconds per query with exact search.
      approximate_ms: milliseconds per query with approximate search.
      queries: kind of the queries: "captions" or "images".
    """

    recall: float
    exact_ms: float
    approximate_ms: float
    queries: str


@dataclasses.dataclass
class IndexGallery:
    """The items of one kind, with their embeddings.

    Attributes:
      names: see `SearchItems`.
      vectors: float32 [N, D] or [N, K, D].
      tokens: tokens of the items, if the model compares them.
      folder: the folder of the pictures of an index that was opened.
      dataset: see `SearchItems`.
      left_out: names of pictures that are not in it since they cannot be read -> the fault.
      lists: faiss's index; None if search is exact.
      effort: how much of it a query searches.
      quality: quality of approximate search.
    """

    names: Sequence[str]
    vectors: np.ndarray
    dataset: Mapping[str, str] | None = None
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Any = None
    effort: SearchParameters = dataclasses.field(default_factory=SearchParameters)
    quality: Quality | None = None
    tokens: RaggedTokens | None = None
    folder: str = ""


def embed(
    model: Model,
    kind: str,
    items: Any,
    *,
    upright: bool = True,
    unreadable: dict[int, str] | None = None,
) -> np.ndarray | ItemEmbeddings:
    """Returns the embeddings of images or captions, float32 [n, D] or [n, K, D].

    They are `ItemEmbeddings` if the model compares tokens. See `Model.embed_images` for `upright`
    and `unreadable`.

    Raises:
      UserError: an item cannot be embedded, or its embedding is not finite.
    """
    found: Any
    if kind == "image":
        found = model.embed_images(items, upright=upright, unreadable=unreadable)
    else:
        found = model.embed_texts(items)
    check_finite(found, kind)
    return np.asarray(found) if getattr(found, "tokens", None) is None else found


def check_finite(embeddings: np.ndarray | ItemEmbeddings, what: str) -> None:
    """Raises an error for NaN, which would be found first."""
    if bad := count_not_finite(np.asarray(embeddings)):
        raise UserError(
            f"{bad:,} of {len(embeddings):,} {what} embeddings are not finite: the model diverged."
        )


def embed_items(model: Model, items: Mapping[str, SearchItems]) -> dict[str, IndexGallery]:
    """Embeds items by kind; those that cannot be read are left out, if they may be.

    If the devices of the model belong to several processes, all of them call it, embed a share and
    receive all embeddings.

    Raises:
      UserError: an item cannot be embedded, no item can be read, or the processes see different
        items.
    """
    names = repr({kind: list(each.names) for kind, each in items.items()})
    seen = hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()
    if len(set(processes.gather("find the items", seen))) > 1:
        raise UserError("The processes see different items: all of them need the same files.")
    return {kind: _embed_kind(model, kind, each) for kind, each in items.items()}


def _embed_kind(model: Model, kind: str, items: SearchItems) -> IndexGallery:
    names, own = items.names, dict[int, str]()
    found = embed(
        model,
        kind,
        items.read(0, len(names)),
        upright=items.upright,
        unreadable=own if items.may_be_damaged else None,
    )
    # Every process has only read its share.
    every = processes.gather(f"embed the {kind}s", json.dumps(own))
    faults = {int(row): fault for each in every for row, fault in json.loads(each).items()}
    if len(faults) == len(names):
        raise UserError(
            f"None of the {len(names):,} {kind}s can be read; the first is {names[0]}: {faults[0]}."
        )
    if faults:
        found = found[[row for row in range(len(names)) if row not in faults]]
    return IndexGallery(
        [name for row, name in enumerate(names) if row not in faults],
        np.asarray(found),
        tokens=getattr(found, "tokens", None),
        dataset=items.dataset,
        left_out={names[row]: faults[row] for row in sorted(faults)} | dict(items.left_out),
    )
