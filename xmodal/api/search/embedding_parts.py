"""Embeddings in parts: every process of a build computes some, and a killed build resumes.

OUTPUT.parts/parts.json        hashes of the weights and of the items of every kind
OUTPUT.parts/image-00012.npy   embeddings of the items of a part, float32 [n, D] or [n, K, D]
OUTPUT.parts/image-00012.npz   their tokens, if the similarity compares them
OUTPUT.parts/image-00012.json  positions in the part and faults of pictures that cannot be read
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from etils import epath

from data_prep.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.api.item_embeddings import ItemEmbeddings, tokens_of
from xmodal.api.model import Model
from xmodal.api.search.embedded_items import embed
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.items import SearchItems
from xmodal.base import processes
from xmodal.base.atomic import replacing, write_atomically
from xmodal.base.config import UserError
from xmodal.base.json_files import read_json
from xmodal.evals.inputs.ragged_tokens import RaggedTokens

_CARD = "parts.json"
_REMEDY = "remove it and start the command again; the other parts stay."


@dataclasses.dataclass(frozen=True)
class _Part:
    """Items `start` to `stop` of a kind."""

    path: epath.Path
    kind: str
    start: int
    stop: int

    @property
    def faults(self) -> epath.Path:
        """File of the items that cannot be read."""
        return self.path.with_suffix(".json")

    @property
    def tokens(self) -> epath.Path:
        """File of the items' tokens, if the similarity compares them."""
        return self.path.with_suffix(".npz")


class EmbeddedParts:
    """The embeddings of items, stored in files beside an index until it is written.

    Parts are computed one by one, so that they are the same for any number of processes.

    Args:
      output: folder of the index, visible to all processes.
      model: embeds on the devices of its process.
      items: items by kind, "image" and "caption".
      size: items per part.

    Attributes:
      folder: folder of the parts; the caller holds its lock.
    """

    def __init__(
        self, output: str | os.PathLike, model: Model, items: Mapping[str, SearchItems], size: int
    ) -> None:
        """Finds the parts."""
        if size < 1:
            raise UserError(f"--part_size={size}; it must be at least 1.")
        self.folder = epath.Path(f"{os.fspath(output).rstrip('/')}.parts")
        self._model, self._items, self._size = model, items, size
        self._parts = list(self._find())

    def embed(self) -> None:
        """Embeds this process's missing parts; every process calls it.

        Raises:
          UserError: the folder has parts of another build, or an item cannot be embedded.
        """
        card = self._card()
        processes.first_does("begin the parts", lambda: self._begin(card))
        if processes.index() > 0 and self._read_card() != card:
            raise UserError(
                f"Process {processes.index()} does not see the items, the weights or the folder "
                f"{self.folder} of process 0; all processes need the same."
            )
        for number, part in enumerate(self._parts):
            if number % processes.count() == processes.index() and not self._is_done(part):
                self._embed(part)
        processes.gather("embed its parts", "done")

    def gallery(self, kind: str) -> IndexGallery:
        """Returns all items of a kind that can be read, in order.

        Raises:
          UserError: a part is damaged, or no item can be read.
        """
        items, parts = self._items[kind], [part for part in self._parts if part.kind == kind]
        vectors = np.concatenate([_load(part) for part in parts])
        tokens = None
        if self._model.measure[0].module is not None:
            tokens = RaggedTokens.join([_load_tokens(part) for part in parts])
        faults = {
            part.start + int(row): fault
            for part in parts
            if items.may_be_damaged
            for row, fault in read_json(part.faults, _REMEDY).items()
        }
        if len(faults) == len(vectors):
            raise UserError(
                f"None of the {len(vectors):,} {kind}s can be read; the first is "
                f"{items.names[0]}: {faults[0]}."
            )
        kept = np.array([row not in faults for row in range(len(vectors))])
        return IndexGallery(
            [name for name, keep in zip(items.names, kept, strict=True) if keep],
            vectors[kept] if faults else vectors,
            tokens=tokens.take(np.flatnonzero(kept)) if tokens is not None else None,
            dataset=items.dataset,
            left_out={
                **{items.names[row]: fault for row, fault in faults.items()},
                **items.left_out,
            },
        )

    def remove(self) -> None:
        """Removes the files."""
        self.folder.rmtree()

    def _begin(self, card: Mapping[str, Any]) -> None:
        path = self.folder / _CARD
        if path.exists():
            found = self._read_card()
            different = [key for key in card if found.get(key) != card[key]]
            if different:
                raise UserError(
                    f"{self.folder} has parts of a build with different {', '.join(different)}: "
                    "remove it, or use another --output."
                )
            done = sum(map(self._is_done, self._parts))
            print(f"{done:,} of {len(self._parts):,} parts are already embedded", flush=True)
            return
        write_atomically(path, json.dumps(card, indent=2))

    def _read_card(self) -> dict[str, Any]:
        path = self.folder / _CARD
        remedy = f"remove {self.folder} and start again."
        return read_json(path, remedy) if path.exists() else {}

    def _is_done(self, part: _Part) -> bool:
        has_faults = part.faults.exists() or not self._items[part.kind].may_be_damaged
        return has_faults and part.path.exists()

    def _embed(self, part: _Part) -> None:
        items = self._items[part.kind]
        inputs = items.read(part.start, part.stop)
        faults: dict[int, str] | None = {} if items.may_be_damaged else None
        found = embed(self._model, part.kind, inputs, upright=items.upright, unreadable=faults)
        if faults is not None:
            write_atomically(part.faults, json.dumps(dict(sorted(faults.items()))))
        if isinstance(found, ItemEmbeddings):
            with replacing(part.tokens) as file:
                np.savez(file, **tokens_of(found).arrays())
        with replacing(part.path) as file:
            np.save(file, np.asarray(found))

    def _find(self) -> Iterator[_Part]:
        for kind, items in self._items.items():
            for number, start in enumerate(range(0, len(items.names), self._size)):
                stop = min(start + self._size, len(items.names))
                yield _Part(self.folder / f"{kind}-{number:05d}.npy", kind, start, stop)

    def _card(self) -> dict[str, Any]:
        """The hashes that determine the content of the parts."""
        card: dict[str, Any] = {"weights": self._model.hash_weights(), "part_size": self._size}
        for kind, items in self._items.items():
            digest = hashlib.sha256()
            for word in (*items.names, *items.stamps):
                digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
            card[f"{kind}s"] = f"{len(items.names)} {digest.hexdigest()}"
        return card


def _load(part: _Part) -> np.ndarray:
    try:
        vectors = load_arrays(part.path)
    except DAMAGE as error:
        raise _damaged(part, str(error)) from error
    if len(vectors) != part.stop - part.start:
        raise _damaged(part, f"{len(vectors)} rows of {part.stop - part.start}")
    return vectors


def _load_tokens(part: _Part) -> RaggedTokens:
    try:
        tokens = RaggedTokens(**load_arrays(part.tokens))
    except DAMAGE as error:
        raise _damaged(part, str(error)) from error
    if len(tokens.lengths) != part.stop - part.start:
        raise _damaged(part, f"tokens of {len(tokens.lengths)} items")
    return tokens


def _damaged(part: _Part, reason: str) -> UserError:
    return UserError(
        f"{part.path} is damaged: {reason}. Remove it and start the command again; the other parts "
        "stay."
    )
