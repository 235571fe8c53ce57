"""Retrieval and rating benchmarks of a captioned dataset."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.evaluator import Evaluator, Options, Split, describe_labels
from xmodal.evals.evaluators.runner import compute_benchmarks, open_galleries, scores_of
from xmodal.evals.labels.annotations import add_annotations, read_annotations, restrict
from xmodal.evals.labels.definitions import COCO, KINDS, definitions_of
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.make import explain_left_out, make_benchmarks
from xmodal.evals.labels.split import describe_texts, number_texts
from xmodal.evals.labels.types import Labels
from xmodal.evals.model_adapter import EncoderAdapter
from xmodal.evals.reports.metrics import SELECTED
from xmodal.evals.reports.results import Result
from xmodal.evals.scores import sources
from xmodal.evals.scores.completed_concepts import OWN, RULES, CompletedItems, find_neighbors
from xmodal.evals.scores.lists import open_lists
from xmodal.evals.scores.rerank import TwoStages, make_reranker
from xmodal.evals.scores.score_rows import Scores

_LISTED = 50  # Items that metrics of ECCV Caption and PMRP read.
_METRIC = re.compile(r"(?:recall|ndcg)@[1-9]\d*|map(?:@r)?|r_precision|mrr|median_rank")
_TRANSDUCTIVE = (
    "TRANSDUCTIVE: with concepts={!r}, captions are also labeled with the concepts of similar "
    "captions of this split. Metrics depend on the gallery; they cannot be compared with those of "
    "models that embed items one by one."
)


@dataclasses.dataclass(frozen=True)
class BenchmarksOptions(Options):
    """Options of benchmarks.

    Attributes:
      annotations: folder of label files, or a file of judgments, see `labels.annotations`; "" for
        the dataset's own labels.
      benchmarks: names of benchmarks; None for every benchmark that the labels allow.
      metrics: metrics of the benchmarks that annotations add, see `labels.types.DirectionLabels`,
        such as "ndcg@100"; None for the usual ones.
      reranker: `{"name": ..., **options}`, see `scores.rerank`; `{"name": "cross_encoder", "top":
        K}` ranks the best K items of the towers by the model's cross-encoder.
      task: task whose predictions the reranker uses; not for a second stage.
      concepts: of a model with the head "consensus", "own" labels a caption with the concepts of
        its own words; "completed" also with those of similar captions of the split, by the rule of
        CVSE's authors for COCO, and "completed_flickr30k" by that for Flickr30k.
    """

    annotations: str = ""
    benchmarks: tuple[str, ...] | None = None
    metrics: tuple[str, ...] | None = None
    reranker: Mapping[str, Any] | None = None
    task: str = ""
    concepts: str = setting(OWN, one_of=(OWN, *RULES))

    @property
    def scores_pairs(self) -> bool:
        """See `Options`."""
        return (self.reranker or {}).get("name") == "cross_encoder"

    def check(self, where: str) -> None:
        """See `Options`."""
        super().check(where)
        make_reranker(f"{where}.reranker", self.reranker)
        for metric in self.metrics or ():
            if not _METRIC.fullmatch(metric):
                raise UserError(
                    f"{where}.metrics names {metric!r}; known: recall@K, ndcg@K, map, map@r, "
                    "r_precision, mrr and median_rank."
                )

    def default_metric(self, dataset: str) -> str:
        """See `Options`."""
        known = definitions_of(dataset)
        for name in self.benchmarks or known:
            for metric in SELECTED:
                if name in known and metric in known[name].metrics:
                    return f"{name}/mean_{metric}"
        return ""


class BenchmarksEvaluator(Evaluator):
    """Computes `benchmarks` from `labels`, see `Evaluator`."""

    options: BenchmarksOptions

    def __init__(
        self,
        where: str,
        options: BenchmarksOptions,
        labels: Labels,
        mesh: Mesh | None,
        split: Split | None = None,
    ) -> None:
        """Makes the benchmarks; `split` has their items, None for labels without a dataset."""
        if options.metrics:
            if not (added := labels.definitions.items()):
                raise UserError(f"{where}.metrics needs judgments in {where}.annotations.")
            chosen = {n: dataclasses.replace(x, metrics=options.metrics) for n, x in added}
            labels = dataclasses.replace(labels, definitions=chosen)
        self.options, self.labels, self.split = options, labels, split
        self.reranker = make_reranker(f"{where}.reranker", options.reranker)
        self._ranking: dict[str, Any] = {
            "mesh": mesh, "reranker": self.reranker, "task": options.task,
            "precision": options.precision,
        }  # fmt: skip
        self.benchmarks = make_benchmarks(labels, options.benchmarks)
        if not self.benchmarks:
            raise UserError(
                "No benchmark is named, or the labels of "
                f"{options.annotations or labels.name} allow none."
            )
        notes = describe_texts(labels.name, labels.texts, labels.caption_image_ids)
        if options.benchmarks is None:
            for why, names in explain_left_out(labels, self.benchmarks).items():
                notes.append(f"Left out {' and '.join(names)}: {why}.")
        title = labels.name if split is None or options.annotations else split.title
        described = describe_labels(labels, title, {} if split is None else split.hashes)
        transductive = [_TRANSDUCTIVE.format(options.concepts)] * (options.concepts != OWN)
        warnings = [*described.warnings, *transductive]
        self.provenance = dataclasses.replace(described, warnings=warnings, notes=notes)
        # Kept, so that all users of a model share its embeddings.
        self._complete = functools.lru_cache(1)(self._complete_items)

    def source(self, adapter: sources.ModelAdapter, split: Split | None = None) -> sources.Source:
        """See `Evaluator`."""
        rule = self.options.concepts
        if rule == OWN:
            return super().source(adapter, split)
        if self.split is None or not isinstance(adapter, EncoderAdapter):
            raise UserError(
                f"concepts={rule!r} embeds captions twice, which {adapter.place} "
                "cannot do: evaluate a single model itself, or set it to 'own'."
            )
        return super().source(adapter, self._complete(adapter))

    def _complete_items(self, adapter: EncoderAdapter) -> CompletedItems:
        fused, options = {"name": "dot", "field": "fused"}, self.options
        found = adapter.items(self.split, similarity=fused, batch_size=options.batch_size)
        vectors = found.vectors("image"), found.vectors("text")
        neighbors = find_neighbors(*vectors, options.concepts)
        return CompletedItems(self.split, neighbors)

    def open_rankings(
        self, source: sources.Embeddings | sources.ScoreMatrix
    ) -> Callable[[str], Scores]:
        """Returns the function direction -> scores that `run` ranks its queries by."""
        return functools.partial(scores_of, open_galleries(source, self.labels, **self._ranking))

    def scores(self, adapter: sources.ModelAdapter) -> sources.Candidates | sources.ScoreMatrix:
        """Returns the scores that `run` ranks images and captions by, as a file has them.

        They are those of all pairs, or of the pairs that a second stage scored.
        """
        source: Any = self.source(adapter)
        scores = open_galleries(source, self.labels, **self._ranking)["image", "text"]
        ids = self.labels.image_ids, self.labels.caption_ids
        if not isinstance(scores, TwoStages) or scores.scores_all:
            return sources.ScoreMatrix(source.place, *ids, scores.rows(np.arange(scores.shape[0])))
        directions = {}
        for direction, each, items in (
            ("i2t", scores, ids[1]),
            ("t2i", scores.transpose(), ids[0]),
        ):
            positions, found = each.candidates()
            directions[direction] = np.asarray(items, np.int64)[positions], found
        return sources.Candidates(source.place, *ids, directions, scores.definition)

    def rankings(self, adapter: sources.ModelAdapter) -> sources.RankedLists:
        """Returns the first 50 items of every query, as `run` ranks them, best first."""
        source: Any = self.source(adapter)
        ids = {"i2t": self.labels.image_ids, "t2i": self.labels.caption_ids}
        opened: Callable[[str], Scores] = functools.partial(open_lists, source, self.labels)
        if not isinstance(source, sources.RankedLists | sources.Candidates):
            opened = self.open_rankings(source)
        directions = {}
        for direction in getattr(source, "directions", ids):
            items, best = ids[direction[::-1]], opened(direction).best_items(_LISTED)
            found = zip(ids[direction].tolist(), best, strict=True)
            directions[direction] = {query: items[row[row >= 0]] for query, row in found}
        return sources.RankedLists(source.place, directions)

    def run(self, adapter: sources.ModelAdapter) -> list[Result]:
        """See `Evaluator`."""
        options = self.options
        return compute_benchmarks(
            self.source(adapter), self.labels, self.benchmarks,
            bootstrap_samples=options.bootstrap_samples, seed=options.seed, **self._ranking,
        )  # fmt: skip


def benchmarks_of_split(
    where: str,
    options: BenchmarksOptions,
    split: Split,
    modalities: Collection[str],
    mesh: Mesh | None,
) -> BenchmarksEvaluator:
    """Makes the benchmarks of a prepared dataset's split, see `make_evaluator`."""
    labels = labels_of_split(split, options.benchmarks or (), options.annotations)
    return BenchmarksEvaluator(where, options, labels, mesh, split)


def labels_of_split(
    split: Split, benchmarks: Collection[str], annotations: str | os.PathLike = ""
) -> Labels:
    """Returns the labels of a prepared dataset's split, with lists if a benchmark needs one.

    Annotations of MS-COCO replace its own labels, which have no images that are missing here; those
    of other datasets are added to theirs.
    """
    if annotations and split.name == COCO:
        labels = read_annotations(annotations, split.split)
        labels = restrict(labels, split.image_ids, split.caption_ids)
        rows = Positions("caption", split.caption_ids)(labels.caption_ids)
        return dataclasses.replace(labels, texts=number_texts(split.caption_texts)[rows])
    known = definitions_of(split.name)
    needs_lists = any(known[name].released for name in benchmarks if name in known)
    names = ("image_ids", "caption_ids", "caption_image_ids", "categories", "caption_categories")
    labels = Labels(
        name=split.name, split=split.split, ratings=split.ratings, partial=split.partial,
        lists=split.lists if needs_lists else {}, texts=number_texts(split.caption_texts),
        **{name: getattr(split, name) for name in names},
    )  # fmt: skip
    return add_annotations(labels, annotations, split) if annotations else labels


def benchmarks_of_annotations(
    options: BenchmarksOptions,
    split: str,
    source: sources.Source,
    *,
    partial: bool = False,
    mesh: Mesh | None = None,
) -> BenchmarksEvaluator:
    """Makes the benchmarks of labels without a prepared dataset, see `read_annotations`.

    Args:
      options: options with the folder of the labels.
      split: split of these labels.
      source: a file, whose items are the gallery of judgments that name none.
      partial: whether the file may lack items of the labels.
      mesh: devices over which galleries are sharded.
    """
    ids = {} if isinstance(source, sources.RankedLists) else sources.ids_of(source)
    gallery = {name: ids.get(kind, np.zeros(0, np.int64)) for name, kind in KINDS.items()}
    labels = read_annotations(options.annotations, split, gallery if ids else None)
    if partial and ids:
        labels = restrict(labels, ids.get("image"), ids.get("caption"))
    return BenchmarksEvaluator("config.evals", options, labels, mesh)
