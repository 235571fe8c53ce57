"""Embeds the items of an index, and holds them in memory."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.api.item_embeddings import ItemEmbeddings
from xmodal.api.model import Model
from xmodal.api.search.items import SearchItems
from xmodal.core import processes
from xmodal.core.errors import UserError
from xmodal.evals.scores.ragged_tokens import RaggedTokens


@dataclasses.dataclass
class IndexGallery:
    """The items of one kind, with their embeddings.

    Attributes:
      names: see `SearchItems`.
      vectors: float32 [N, D] or [N, K, D].
      dataset: see `SearchItems`.
      left_out: names of pictures that are not in it since they cannot be read -> the fault.
      lists: faiss's index; None if search is exact.
      effort: see `ApproximateSearch`.
      recall: share of the exact top ten that approximate search finds.
      tokens: tokens of the items, if the model compares them.
    """

    names: Sequence[str]
    vectors: np.ndarray
    dataset: Mapping[str, str] | None = None
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Any = None
    effort: Sequence[int] = (1, 2)
    recall: float | None = None
    tokens: RaggedTokens | None = None


def embed(
    model: Model, kind: str, items: Any, *, upright: bool = True, unreadable: Any = None
) -> np.ndarray | ItemEmbeddings:
    """Returns the embeddings of images or captions, float32 [n, D] or [n, K, D].

    They are `ItemEmbeddings` if the model compares tokens. See `Model.embed_images` for `upright`
    and `unreadable`.
    """
    given = {"upright": upright, "unreadable": unreadable}
    found: Any = model.embed_images(items, **given) if kind == "image" else model.embed_texts(items)
    return np.asarray(found) if getattr(found, "tokens", None) is None else found


def embed_items(model: Model, kind: str, items: SearchItems) -> IndexGallery:
    """Embeds the items of a kind; those that cannot be read are left out, if they may be.

    If the devices of the model belong to several processes, all of them call it, embed a share and
    receive all embeddings.
    """
    names, own = items.names, dict[int, str]()
    unreadable = own if items.may_be_damaged else None
    given = items.read(0, len(names))
    found = embed(model, kind, given, upright=items.upright, unreadable=unreadable)
    # Every process has only read its share.
    every = processes.gather(f"embed the {kind}s", json.dumps(own))
    faults = {int(row): fault for each in every for row, fault in json.loads(each).items()}
    if len(faults) == len(names):
        raise UserError(
            f"None of the {len(names):,} {kind}s can be read; the first is {names[0]}: {faults[0]}."
        )
    rows = [row for row in range(len(names)) if row not in faults]
    found = found[rows] if faults else found
    return IndexGallery(
        [names[row] for row in rows],
        np.asarray(found),
        tokens=getattr(found, "tokens", None),
        dataset=items.dataset,
        left_out={names[row]: faults[row] for row in sorted(faults)},
    )
