"""Inspects a model: queries and the items they find, with labels and human ratings."""

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_collections
import numpy as np

from xmodal.api.run_splits import EvaluatedSplit, open_evaluated_split
from xmodal.api.search.formats import as_page
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.index import Hit, Index
from xmodal.apps.analysis.ratings import rating_plots
from xmodal.core.config import lookup
from xmodal.core.page import Page
from xmodal.evals import Evaluation, evaluate_source
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import name_image
from xmodal.evals.labels.types import GradedPairs
from xmodal.evals.reports.examples import Pick, make_groups, ranked_directions, space_evenly
from xmodal.evals.reports.results import DirectionResult
from xmodal.evals.scores.sources import order_embeddings

if TYPE_CHECKING:
    from xmodal.api.model import Model

_NOTE = "The query with the items that it finds first and its other positives."


def inspect(
    source: str | os.PathLike,
    *,
    config: ml_collections.ConfigDict | None = None,
    evaluator: str = "",
    split: str | None = None,
    step: int | str = "best",
    similarity: str | None = None,
) -> "Inspection":
    """Embeds a split with a run, or reads its embeddings from a file, for inspection.

        inspection = xmodal.inspect("runs/quickstart")
        inspection.search("a red star")
        inspection.neighbors("i2t")

    Args:
      source: folder of a run, or an npz file that `eval_main --save_embeddings` wrote.
      config: config with the dataset of a file, such as a run's config; a run has its own.
      evaluator: name in `config.evals`, of type `benchmarks`; "" for the first one.
      split: split of the dataset; None for the evaluator's final split.
      step: checkpoint of a run: a number, `best` or `latest`.
      similarity: similarity for a file that does not name one.
    """
    found = open_evaluated_split(os.fspath(source), config, evaluator, split, step, similarity)
    if found.step is None:
        return Inspection(found)
    from xmodal.api.loading import load

    return Inspection(found, load(source, step=found.step))


class Inspection:
    """Embeddings of a split with its labels; made by `xmodal.inspect`.

    Attributes:
      name: name of the model.
      model: embeds texts and pictures; None if the embeddings came from a file.
      embeddings: embeddings in the order of the labels.
    """

    def __init__(self, found: EvaluatedSplit, model: "Model | None" = None) -> None:
        """Inspects a split and, if a model is given, embeds queries with it."""
        self.name, self.model, self._found = found.model_name, model, found
        self._evaluator: BenchmarksEvaluator = found.evaluator
        self._items = found.items
        self.embeddings = order_embeddings(found.embeddings, self._evaluator.labels)
        self._rankings = functools.cache(self._evaluator.open_rankings(self.embeddings))

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        """Numbers, report and page of examples; its `tagged` has the tags of `metrics.json`."""
        return evaluate_source(
            self._evaluator, self.embeddings, name=self.name, examples=5,
            evaluator_name=self._found.evaluator_name,
        )  # fmt: skip

    @property
    def directions(self) -> list[str]:
        """The available directions, of i2t, t2i, t2t and i2i."""
        return list(self._benchmarks)

    @property
    def image_ids(self) -> np.ndarray:
        """Ids of the images, int [N]."""
        return self._evaluator.labels.image_ids

    def picture(self, image_id: int) -> bytes:
        """Returns an image of the split as an encoded picture, which `search` takes."""
        row = Positions("image", self._items.image_ids)(np.array([image_id]))
        return bytes(self._items.pictures(row)[0])

    def neighbors(self, direction: str, queries: int | Sequence[int] = 3) -> Page:
        """Returns a page of queries, the items they find first, and their other positives.

        Every item has its rank, its score, and human ratings of the pair.

        Args:
          direction: "i2t", "t2i", "t2t" or "i2i".
          queries: ids of images or captions, or the number of evenly spaced queries.
        """
        name, result = lookup("direction", direction, self._benchmarks)
        ids = result.query_ids
        if isinstance(queries, int | np.integer):
            rows = space_evenly(max(1, int(queries)), len(ids))
        else:
            rows = Positions("query", ids)(np.asarray(queries))
        assert result.rank is not None
        pick = Pick("neighbors", _NOTE, direction, name, ids[rows], result.rank[rows])
        groups = make_groups(self._evaluator, self._rankings, [pick])
        return Page(f"{self.name}: {pick.title}", groups)

    def search(
        self, text: str | None = None, *, image: Any = None, find: str = "image", top: int = 5
    ) -> Page:
        """Returns a page of the split's items that are most similar to a text or a picture.

        Args:
          text: the query as text.
          image: the query as an image for `Model.embed_images`; either this or `text`. Bytes, as
            from `picture`, are not rotated, as in the evaluation.
          find: "image" or "caption".
          top: number of hits.
        """
        upright = not isinstance(image, bytes)
        hits = self._index.query(text, image=image, top=top, find=find, upright=upright)

        def picture(hit: Hit) -> bytes | None:
            if find == "caption" or not self._items.has_pictures:
                return None
            return bytes(self._items.pictures(self._rows[find][[hit.row]])[0])

        return as_page("a picture" if text is None else text, hits, picture)

    @property
    def ratings(self) -> list[str]:
        """Human ratings that the model can be compared with, such as "shapes/sts"."""
        return list(self._rated)

    def draw_ratings(self) -> bytes:
        """Returns a PNG of similarity against human rating, with the line of best fit."""
        found = {
            name: (pairs.scores, self._rankings(direction).pairs(pairs.left, pairs.right))
            for name, (direction, pairs) in self._rated.items()
        }
        return rating_plots.draw_similarities(found, title=self.name)

    @property
    def _rated(self) -> dict[str, tuple[str, GradedPairs]]:
        """Name of ratings -> direction and pairs."""
        directions = {DIRECTIONS[each]: each for each in self.directions}
        return {
            f"{benchmark.name}/{name}": (directions[pairs.modalities], pairs)
            for benchmark in self._evaluator.benchmarks
            for name, pairs in benchmark.graded.items()
            if pairs.modalities in directions
        }

    @functools.cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """The positions in the split of the embedded images and captions, int [N]."""
        labels, items = self._evaluator.labels, self._items
        return {
            "image": Positions("image", items.image_ids)(labels.image_ids),
            "caption": Positions("caption", items.caption_ids)(labels.caption_ids),
        }

    @functools.cached_property
    def _index(self) -> Index:
        assert self.model is not None
        items, found = self._items, self.embeddings
        names = {
            "image": [name_image(items, each) for each in self.image_ids],
            "text": [items.caption_texts[row] for row in self._rows["caption"]],
        }
        galleries = {
            KINDS[modality]: IndexGallery(
                names[modality], vectors, tokens=found.tokens.get(modality)
            )
            for modality, vectors in found.by_modality.items()
        }
        return Index(self.model, galleries)

    @functools.cached_property
    def _benchmarks(self) -> dict[str, tuple[str, DirectionResult]]:
        """Direction -> the benchmark with the widest labels, and its result."""
        found = ranked_directions(self._evaluator.benchmarks, self.evaluation.benchmarks)
        return {direction: (name, result) for direction, name, result in found}
