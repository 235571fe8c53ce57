"""Embeds the items of an index, holds them in memory, and writes and reads their files.

image.npy, caption.npy          embeddings, float32 [N, D] or [N, K, D]
image_tokens.npz, ...           their tokens, if the similarity compares them
image.json, caption.json        names of the items, a list
image_lists.faiss, ...          of approximate search, in the format of faiss
image_training.npz              which images were trained on, and what their scores lose
"""

import dataclasses
import importlib.util
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from etils import epath

from xmodal.api.item_embeddings import ItemEmbeddings
from xmodal.api.model import Model
from xmodal.api.search.items import SearchItems
from xmodal.core import processes
from xmodal.core.untrusted.saved_arrays import load_arrays
from xmodal.evals.scores.ragged_tokens import RaggedTokens

# Fields of a gallery in the card of the index, and in its file of training images.
_FACTS = ("dataset", "left_out", "probes", "recall", "folder", "files")
_OF_TRAINING = ("trained", "penalties")


@dataclasses.dataclass
class IndexGallery:
    """The items of one kind, with their embeddings.

    Attributes:
      names: see `SearchItems`.
      vectors: float32 [N, D] or [N, K, D].
      dataset: see `SearchItems`.
      left_out: names of pictures that are not in it since they cannot be read -> the fault.
      lists: faiss's index; None if search is exact.
      probes: see `ApproximateSearch`.
      recall: share of the exact top ten that approximate search finds.
      tokens: tokens of the items, if the model compares them.
      folder: the folder that these are all pictures of, see `folder_index`; else "".
      files: path -> size and time of its files when they were read, with those left out.
      trained: which items the model was trained on, bool [N]; None if that is unknown.
      penalties: what the scores of texts with the items lose, float32 [N], see `hubness`.
    """

    names: Sequence[str]
    vectors: np.ndarray
    dataset: Mapping[str, str] | None = None
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Any = None
    probes: int = 1
    recall: float | None = None
    tokens: RaggedTokens | None = None
    folder: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trained: np.ndarray | None = None
    penalties: np.ndarray | None = None

    def embedding(self, row: int) -> ItemEmbeddings:
        """Returns the embedding of an item, of length 1."""
        tokens = None if self.tokens is None else self.tokens[np.array([row])]
        return ItemEmbeddings(self.vectors[row : row + 1], tokens=tokens)

    def write(self, folder: epath.Path, kind: str) -> dict[str, Any]:
        """Writes the files of a gallery, and returns its record in the card."""
        np.save(folder / f"{kind}.npy", self.vectors)
        if self.tokens is not None:
            np.savez(folder / f"{kind}_tokens.npz", **self.tokens.arrays())
        # In ASCII: names of files need not be UTF-8.
        (folder / f"{kind}.json").write_text(json.dumps(list(self.names)))
        if arrays := {n: x for n in _OF_TRAINING if (x := getattr(self, n)) is not None}:
            np.savez(folder / f"{kind}_training.npz", **arrays)
        if self.lists:
            import faiss

            lists = faiss.serialize_index(self.lists).tobytes()
            (folder / f"{kind}_lists.faiss").write_bytes(lists)
        return {"count": len(self.names), **{name: getattr(self, name) for name in _FACTS}}

    @classmethod
    def read(cls, folder: epath.Path, kind: str, record: Mapping[str, Any]) -> Self:
        """Returns a gallery from its files and its record in the card."""
        names = "tokens.npz", "lists.faiss", "training.npz"
        tokens, lists, training = (folder / f"{kind}_{name}" for name in names)
        index = None
        if lists.exists() and importlib.util.find_spec("faiss"):  # Without it, search is exact.
            import faiss

            index = faiss.deserialize_index(np.frombuffer(lists.read_bytes(), np.uint8))
        return cls(
            json.loads((folder / f"{kind}.json").read_text()),
            load_arrays(folder / f"{kind}.npy", mmap_mode="r"),
            lists=index,
            tokens=RaggedTokens(**load_arrays(tokens)) if tokens.exists() else None,
            **(dict(load_arrays(training)) if training.exists() else {}),
            **{name: record[name] for name in _FACTS},
        )

    @classmethod
    def join(cls, parts: Sequence[Self], files: Mapping[str, str]) -> Self:
        """Returns the items of files, in their order; parts may have other and older files."""
        rows, left_out, start = dict[str, int](), dict[str, str](), 0
        for part in parts:
            now = dict(part.files.items() & files.items())
            rows |= {name: row for row, name in enumerate(part.names, start) if name in now}
            left_out |= {name: fault for name, fault in part.left_out.items() if name in now}
            start += len(part.names)
        names = [name for name in files if name in rows]
        order = np.array([rows[name] for name in names], int)
        tokens = [part.tokens for part in parts if part.tokens is not None]
        trained = [part.trained for part in parts if part.trained is not None]
        return cls(
            names,
            np.concatenate([part.vectors for part in parts])[order],
            left_out={n: left_out[n] for n in files if n in left_out and n not in rows},
            tokens=RaggedTokens.join(tokens)[order] if tokens else None,
            trained=np.concatenate(trained)[order] if trained else None,
            folder=parts[0].folder,
            files=files,
        )


def embed_items(model: Model, kind: str, items: SearchItems) -> IndexGallery:
    """Embeds the items of a kind; those that cannot be read are left out, if they may be.

    If the devices of the model belong to several processes, all of them call it, embed a share and
    receive all embeddings.
    """
    names, own = items.names, dict[int, str]()
    given, unreadable = items.read(), own if items.may_be_damaged else None
    found: Any = (
        model.embed_images(given, upright=items.upright, unreadable=unreadable)
        if kind == "image"
        else model.embed_texts(given)
    )
    # Every process has only read its share.
    every = processes.gather(f"embed the {kind}s", json.dumps(own))
    faults = {int(row): fault for each in every for row, fault in json.loads(each).items()}
    rows = [row for row in range(len(names)) if row not in faults]
    found = found[rows] if faults else found
    return IndexGallery(
        [names[row] for row in rows],
        np.asarray(found),
        tokens=getattr(found, "tokens", None),
        dataset=items.dataset,
        left_out={names[row]: faults[row] for row in sorted(faults)},
    )
