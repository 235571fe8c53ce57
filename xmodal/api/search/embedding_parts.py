"""Embeddings in parts: every process of a build computes some.

OUTPUT.parts/image-00012.npy   embeddings of the items of a part, float32 [n, D] or [n, K, D]
OUTPUT.parts/image-00012.npz   their tokens, if the similarity compares them
OUTPUT.parts/image-00012.json  positions in the part and faults of pictures that cannot be read
"""

import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping

import numpy as np
from etils import epath

from xmodal.api.item_embeddings import ItemEmbeddings, tokens_of
from xmodal.api.model import Model
from xmodal.api.search.embedded_items import embed
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.items import SearchItems
from xmodal.api.search.methods import KINDS
from xmodal.core import processes
from xmodal.core.atomic import replacing, write_atomically
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_json
from xmodal.core.untrusted.saved_arrays import load_arrays
from xmodal.evals.scores.ragged_tokens import RaggedTokens

_REMEDY = "start the command again."


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
        self.folder = epath.Path(f"{os.fspath(output).rstrip('/')}.parts")
        self._model, self._items, self._size = model, items, size
        self._parts = list(self._find())

    def embed(self) -> None:
        """Embeds this process's parts, and removes those of a killed build; every process calls it.

        Raises:
          UserError: the processes see different items or weights, or an item cannot be embedded.
        """
        seen = processes.gather("find the items", self._identify())
        if len(set(seen)) > 1:
            raise UserError(
                f"Process {processes.index()} of {processes.count()} sees other items or weights "
                "than another process: all processes need the same files."
            )
        processes.first_does("remove the parts of another build", self._remove_parts)
        for part in self._parts[processes.index() :: processes.count()]:
            self._embed(part)
        processes.gather("embed its parts", "done")

    def gallery(self, kind: str) -> IndexGallery:
        """Returns all items of a kind that can be read, in order.

        Raises:
          UserError: no item can be read.
        """
        items, parts = self._items[kind], [part for part in self._parts if part.kind == kind]
        vectors = np.concatenate([load_arrays(part.path) for part in parts])
        tokens = None
        if self._model.measure[0].module is not None:
            tokens = RaggedTokens.join([RaggedTokens(**load_arrays(part.tokens)) for part in parts])
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

    def _remove_parts(self) -> None:
        for file in (file for kind in KINDS for file in self.folder.glob(f"{kind}-*")):
            file.unlink()

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
        vectors = io.BytesIO()  # A full disk is no error of NumPy's own writes.
        np.save(vectors, np.asarray(found))
        write_atomically(part.path, vectors.getvalue())

    def _find(self) -> Iterator[_Part]:
        for kind, items in self._items.items():
            for number, start in enumerate(range(0, len(items.names), self._size)):
                stop = min(start + self._size, len(items.names))
                yield _Part(self.folder / f"{kind}-{number:05d}.npy", kind, start, stop)

    def _identify(self) -> str:
        """A hash of the weights and the names of the items."""
        digest = hashlib.sha256(f"{self._model.hash_weights()} {self._size}".encode())
        for name in (name for items in self._items.values() for name in items.names):
            digest.update(name.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()
