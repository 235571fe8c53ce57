"""An index of images and captions, searched by a text or a picture.

Its folder has the files of `gallery`, and `index.json`: format, version, the model and the hash of
its weights; per kind: count, and what `gallery` keeps there; the checksums of all other files.
"""

import dataclasses
import functools
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from absl import logging
from etils import epath

from xmodal.api.bundles import CARD as BUNDLE
from xmodal.api.loading import load
from xmodal.api.model import Model
from xmodal.api.search import KINDS, hubness
from xmodal.api.search.gallery import IndexGallery, embed_items
from xmodal.api.search.items import SearchItems, from_values
from xmodal.api.search.nearest import OF_UNIT_VECTORS
from xmodal.api.search.searches import add_lists, find_losses, make_scorer, make_search
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import check_files, new_folder, read_json, sha256_of
from xmodal.core.hub import locate

REMEDY = "build the index again."
CARD, FORMAT = "index.json", {"format": "xmodal index", "version": 7}
_WORTH_LISTS = 20_000  # Fewer items are compared exactly in milliseconds.


@dataclasses.dataclass(frozen=True)
class Hit:
    """An item that was found.

    Attributes:
      rank: rank, starting at 1.
      row: its position in the index.
      item: path, caption, or image of a dataset.
      score: larger is more similar.
      definition: names the score, the model's similarity.
    """

    rank: int
    row: int
    item: str
    score: float
    definition: str = ""


class Index:
    """Finds images and captions.

        index = xmodal.Index.build(model, images=["a.jpg", "b.jpg"])
        index.query("a dog on a beach", top=5)
        index.save("indexes/mine")

    Attributes:
      model: embeds queries.
      galleries: "image" and "caption" -> items, if there are any.
      is_corrected: whether the scores of texts with images are corrected, see `hubness`, if some of
        the images were trained on. It may be changed.
    """

    def __init__(self, model: Model, galleries: Mapping[str, IndexGallery]) -> None:
        """Assembles an index from its parts; use `build` or `open` instead."""
        self.model, self.galleries, self.is_corrected = model, dict(galleries), True
        # Not a decorator of the method, which would keep every index for good.
        self._search = functools.cache(functools.partial(make_search, model, self.galleries))

    def __repr__(self) -> str:
        items = (f"{len(each.names):,} {kind}s" for kind, each in self.galleries.items())
        return f"<xmodal.Index of {self.model.name}: {', '.join(items)}>"

    @classmethod
    def build(
        cls,
        model: Model,
        *,
        images: Iterable[Any] | SearchItems = (),
        captions: Iterable[str] | SearchItems = (),
        recall: float = 0.95,
    ) -> Self:
        """Embeds items.

        Args:
          model: a model from `xmodal.load`.
          images: images for `Model.embed_images`; all of an iterator are kept in memory.
          captions: strings.
          recall: smallest share of the exact top ten that approximate search must find, which is
            used from 20,000 items on if faiss is installed; 1 for exact search.
        """
        given = {"image": _as_items(images), "caption": _as_items(captions)}
        items = {kind: each for kind, each in given.items() if len(each.names)}
        if not items:
            raise UserError("There is nothing to index: pass images, captions or both.")
        galleries = {kind: embed_items(model, kind, x) for kind, x in items.items()}
        training = hubness.read_training_items(model)
        if training and (gallery := galleries.get("image")):
            pairs = zip(items["image"].names, items["image"].read(), strict=True)
            pictures = (each for name, each in pairs if name not in gallery.left_out)
            gallery.trained = training.has_trained_on(pictures)
        return cls(model, galleries).complete(training, recall)

    def complete(self, training: hubness.TrainingItems | None, recall: float = 0.95) -> Self:
        """Prepares the search of embedded items; see `build`, and `hubness` for training."""
        bank = None
        for gallery in self.galleries.values():
            if not len(gallery.names):
                (name, fault), count = next(iter(gallery.left_out.items())), len(gallery.left_out)
                raise UserError(
                    f"None of the {count:,} images can be read; the first is {name}: {fault}."
                )
        if training and self.trained and self.model.similarity_name in OF_UNIT_VECTORS:
            gallery, captions = self.galleries["image"], training.captions
            every = -(-len(captions) // hubness.BANK)
            bank = np.asarray(self.model.embed_texts(captions[::every]))
            scorer = make_scorer(self.model, gallery.vectors, "image", "caption")
            count = max(1, round(len(bank) / len(training.images)))
            gallery.penalties = hubness.compute_penalties(scorer, bank, gallery.vectors, count)
        for kind, gallery in self.galleries.items():
            is_large = len(gallery.names) >= _WORTH_LISTS
            if is_large and recall < 1 and importlib.util.find_spec("faiss"):
                logging.info("Tuning approximate search of %d %ss.", len(gallery.names), kind)
                add_lists(self.model, self.galleries, kind, recall, bank)
        return self

    @property
    def trained(self) -> int:
        """Number of images that the model was trained on, as far as is known."""
        gallery = self.galleries.get("image")
        return 0 if gallery is None or gallery.trained is None else int(gallery.trained.sum())

    def notes(self, text: str | None = None) -> list[str]:
        """Returns sentences for the users of the index, and on a query by a text."""
        found = []
        if text is not None and self.model.count_texts([text]).unknown:
            found += [
                "The model knows no word of the query, so it cannot tell it from other texts."
            ]
        if "text" not in self.model.modalities:
            found += [f"{self.model.name} finds images by images; words need a CLIP (--model)."]
        if self.trained:
            gallery = self.galleries["image"]
            corrects = self.is_corrected and gallery.penalties is not None
            then = (
                "scores of texts with images are corrected"
                if corrects
                else "texts find them easily"
            )
            of = f"{self.trained:,} of the {len(gallery.names):,} images"
            found += [f"The model was trained on {of}; {then}."]
        return found

    @classmethod
    def open(
        cls, folder: str | os.PathLike, *, model: Model | str | os.PathLike | None = None
    ) -> Self:
        """Returns an index that was saved.

        Args:
          folder: folder written by `save` or `python -m xmodal search build`.
          model: model that embedded the items, or its folder, if it was moved or exported as a
            bundle; by default its original location. Of a run, the step of the index is used.
        """
        root = epath.Path(folder)
        if not (root / CARD).exists():
            raise UserError(
                f"{folder} is not an index: {CARD} is missing. Make one with "
                "`python -m xmodal search FOLDER`, which prints its place, or `search build`."
            )
        content = read_json(root / CARD, REMEDY)
        if not FORMAT.items() <= content.items():
            found = {key: content.get(key) for key in FORMAT}
            raise UserError(f"{folder} is {found}, but this xmodal reads {FORMAT}: {REMEDY}")
        check_files(root, content["checksums"], REMEDY)
        records = content["galleries"].items()
        galleries = {kind: IndexGallery.read(root, kind, record) for kind, record in records}
        if not isinstance(model, Model):
            place = epath.Path(locate(os.fspath(model or content["model"])))
            # Only a run has steps, and its bundle has none.
            is_run = content["step"] is not None and not (place / BUNDLE).exists()
            model = load(place, step=content["step"]) if is_run else load(place)
        if model.hash_weights() != content["weights"]:
            raise UserError(
                f"The items of {folder} were not embedded by {model.name}: build the "
                "index again, or pass its own model."
            )
        return cls(model, galleries)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes a folder, which must not exist and gets its name when it is complete."""
        if epath.Path(folder).exists():
            raise UserError(f"{folder} already exists: use another --output, or remove it.")
        model, galleries = self.model, self.galleries.items()
        source = os.path.abspath(model.source) if os.path.exists(model.source) else model.source
        with new_folder(folder) as temporary:
            content = FORMAT | {
                "model": source,
                "step": model.step,
                "similarity": model.similarity_name,
                "weights": model.hash_weights(),
                "galleries": {kind: each.write(temporary, kind) for kind, each in galleries},
                "checksums": {path.name: sha256_of(path) for path in sorted(temporary.iterdir())},
            }
            (temporary / CARD).write_text(json.dumps(content, indent=2) + "\n")

    def query(
        self,
        text: str | None = None,
        *,
        image: Any = None,
        like: tuple[str, int] | None = None,
        top: int = 10,
        find: str | None = None,
        upright: bool = True,
    ) -> list[Hit]:
        """Returns the items most similar to a text, a picture or another item, best first.

        Args:
          text: the query as text.
          image: the query as an image for `Model.embed_images`.
          like: kind and row of an item of the index, which is not a hit itself. Pass either this,
            `text` or `image`.
          top: largest number of hits.
          find: "image" or "caption"; by default images, if there are any.
          upright: see `Model.embed_images`; False for a picture of a dataset.
        """
        if [text is None, image is None, like is None].count(False) != 1:
            raise UserError("Pass either a text or an image as the query.")
        kind, row = like or ("caption" if image is None else "image", -1)
        find = find or next(each for each in KINDS if each in self.galleries)
        gallery = lookup("find", find, self.galleries)
        model, search = self.model, self._search(find, kind, self.is_corrected)
        left_out = row if find == kind else -1
        query: Any
        if like is not None:
            asked = lookup("like", kind, self.galleries)
            if not 0 <= row < len(asked.names):
                raise UserError(f"like={like}: the index has {len(asked.names):,} {kind}s.")
            query = asked.embedding(row)
        elif text is not None:
            query = model.embed_texts([text])
        else:
            query = model.embed_images([image], upright=upright)
        (scores,), (rows,) = search(query, min(top + (left_out >= 0), len(gallery.names)))
        found = [each for each in zip(scores, rows, strict=True) if each[1] not in (-1, left_out)]
        definition = model.similarity_name
        if find_losses(gallery, kind, self.is_corrected).any():
            definition += ", corrected for training images"
        return [
            Hit(rank, int(row), gallery.names[row], float(score), definition)
            for rank, (score, row) in enumerate(found[:top], start=1)
        ]

    @property
    def compares_same_kind(self) -> bool:
        """Whether images find images, and captions captions."""
        return self.model.measure[0].module is None

    @property
    def shows_pictures(self) -> bool:
        """Whether the images are files or in a dataset; features and arrays cannot be shown."""
        images, gallery = self.model.images, self.galleries.get("image")
        if gallery is None or images is None or not images.size:
            return False
        return not gallery.names[0].isdecimal()  # The names of arrays, see `from_values`.


def _as_items(given: Iterable[Any] | SearchItems) -> SearchItems:
    if isinstance(given, SearchItems):
        return given
    if isinstance(given, str | bytes):  # Its letters would be items.
        raise UserError(f"{given[:80]!r}: pass several items; put one in a list.")
    return from_values(given if isinstance(given, Sequence | np.ndarray) else list(given))
