"""Retrieval in random pools of pairs, as in CMCM (Alikhani et al. 2022)."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from xmodal.core.config import lookup, setting
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.evaluator import Evaluator, Options, Split
from xmodal.evals.labels.definitions import PUBLIC
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged, own_pairs
from xmodal.evals.labels.same_texts import describe_texts, number_texts
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.paired_differences import check_numbers
from xmodal.evals.reports.results import Numbers
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.scores.galleries import order_embeddings
from xmodal.evals.scores.ranks import rank_directions, rank_queries
from xmodal.evals.scores.rerank import RerankedScores, make_reranker
from xmodal.evals.scores.sources import Embeddings, Provider
from xmodal.evals.scores.vector_scores import open_scores

_DEPTHS = (1, 5, 10)


@dataclasses.dataclass(frozen=True)
class PoolsOptions(Options):
    """Options of random pools.

    Attributes:
      size: pairs per pool; all pairs if there are fewer.
      repeats: number of pools; one if all would hold the same pairs.
      directions: "t2i", "i2t" or both.
      reranker: `{"name": ..., **options}`, see `scores.rerank`.
      task: task whose predictions the reranker uses.
      labels: label column, 0/1 [N, C], that `without` refers to.
      without: names of relations in that column; captions with any of these are not queries.
    """

    size: int = setting(500, at_least=1)
    repeats: int = setting(10, at_least=1)
    directions: tuple[str, ...] = setting(("t2i",), one_of=("t2i", "i2t"))
    reranker: Mapping[str, Any] | None = None
    task: str = ""
    labels: str = "relations"
    without: tuple[str, ...] = ()

    @property
    def compares_sides(self) -> bool:
        """Whether images are compared with captions."""
        return True

    @property
    def labels_read(self) -> tuple[str, ...]:
        """See `Options`."""
        return (self.labels,) if self.without else ()

    def check(self, where: str) -> None:
        """See `Options`."""
        super().check(where)
        make_reranker(f"{where}.reranker", self.reranker)
        if not self.directions:
            raise UserError(f"{where}.directions is empty; use 't2i', 'i2t' or both.")

    def default_metric(self, dataset: str) -> str:
        """See `Options`."""
        del dataset
        return f"{self.directions[0]}/recall@10"


class PoolsEvaluator(Evaluator):
    """Median rank and recalls in pools, see `Evaluator`.

    A pool has `size` images, drawn without replacement, and one caption of each. Every caption
    ranks the images of its pool; its own image is the only positive, or, on data without a
    published protocol, all images that have its text. Pools depend only on the seed
    and the ids, so they are the same for all models. A median halfway between two ranks is not
    rounded. The option `without` removes queries but no gallery items.
    """

    options: PoolsOptions

    def _read(self, sides: Collection[str]) -> None:
        if not {"image", "text"} <= set(sides):
            raise UserError(
                f"{self._where} ranks images for captions; the model has {sorted(sides)}."
            )
        self._reranker = make_reranker(f"{self._where}.reranker", self.options.reranker)
        repeats = range(self.options.repeats)
        self._pools = [_draw_pool(self._split, self.options, repeat) for repeat in repeats]
        if len({frozenset(captions.tolist()) for _, captions in self._pools}) == 1:
            # All pairs: judging them again adds no information and would look like certainty.
            self._pools = self._pools[:1]
        ids = np.asarray(self._split.image_ids), np.asarray(self._split.caption_ids)
        texts, owners = number_texts(self._split.caption_texts), self._split.caption_image_ids
        notes = describe_texts(self._split.name, texts, owners)
        self.provenance = dataclasses.replace(self.provenance, notes=notes)
        owner = Positions("image", ids[0])(owners)
        pairs = own_pairs(owner, owner, None if self._split.name in PUBLIC else texts)["i2t"]
        self._pairs = Ragged.from_pairs(pairs[0], pairs[1], len(ids[0]))
        for images, captions in self._pools:
            self._label_hash.add("pool", ids[0][images], ids[1][captions])
            if self._split.name not in PUBLIC:
                self._label_hash.add("texts", ids[1][captions], texts[captions])
        asking = self._find_asking()
        self._asking = [asking[images] for images, _ in self._pools]
        if not all(map(np.any, self._asking)):
            raise UserError(
                f"{self._where}.without={list(self.options.without)} leaves a pool without queries."
            )
        without = ""
        if self.options.without:
            for (_, captions), each in zip(self._pools, self._asking, strict=True):
                self._label_hash.add("asking", ids[1][captions][each])
            count = np.mean([np.sum(each) for each in self._asking])
            without = f" Queries: the {count:.0f} on average without {self.options.without}."
        size = len(self._pools[0][0])
        pools = f"in {len(self._pools)} random pools of {size} pairs: mean and population standard"
        pools = f"{pools} deviation; seed {self.options.seed}"
        if len(self._pools) == 1:
            pools = f"among {size} pairs, in one pool"
        self._definition = f"Median rank and recalls {pools}.{without}{self._describe_reranker()}"

    def _describe_reranker(self) -> str:
        if self.options.reranker is None:
            return ""
        options = {key: value for key, value in self.options.reranker.items() if key != "name"}
        listed = ", ".join(f"{key} {value}" for key, value in options.items())
        return f" Reranked by {self.options.reranker['name']} ({listed})."

    def _find_asking(self) -> np.ndarray:
        """Whether the captions of an image are queries, bool [N]."""
        options, split = self.options, self._split
        if not options.without:
            return np.ones(len(split.image_ids), bool)
        labels = self._column(options.labels)
        names = list(split.label_names.get(options.labels, ()))
        known = {name: place for place, name in enumerate(names)}
        where = f"{self._where}.without"
        chosen = [lookup(where, name, known) for name in options.without]
        return np.all(labels.reshape(len(labels), -1)[:, chosen] <= 0, axis=1)

    def tags(self, sides: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        del sides
        metrics = ("median_rank", *(f"recall@{depth}" for depth in _DEPTHS))
        return [
            f"{direction}/{metric}{deviation}"
            for direction in self.options.directions
            for metric in metrics
            for deviation in ("", "_std")
        ]

    def _chance(self) -> dict[str, float]:
        if len(self._pairs.values) > len(self._split.caption_ids):
            return {}  # Texts have different numbers of positives.
        size = len(self._pools[0][0])
        found = {"median_rank": (size + 1) / 2}
        found |= {f"recall@{depth}": 100.0 * min(depth / size, 1) for depth in _DEPTHS}
        return {
            f"{direction}/{metric}": value
            for direction in self.options.directions
            for metric, value in found.items()
        }

    def _find_positives(self, images: np.ndarray, captions: np.ndarray) -> dict[str, Ragged]:
        """The positives of a pool by direction."""
        rows, columns = np.nonzero(self._pairs.contains(images[:, None], captions))
        return {
            "i2t": Ragged.from_pairs(rows, columns, len(images)),
            "t2i": Ragged.from_pairs(columns, rows, len(images)),
        }

    def check_comparable(self, other: StoredResults) -> None:
        """See `Evaluator`."""
        check_numbers(other, self._numbers({}))

    def run(self, provider: Provider) -> list[Numbers]:
        """See `Evaluator`."""
        repeats = self._judge_pools(self.embeddings(provider))
        metrics: dict[str, float] = {}
        for tag, values in repeats.items():
            metrics[tag] = float(np.mean(values))
            metrics[f"{tag}_std"] = float(np.std(values))
        return [self._numbers(metrics, repeats)]

    def _judge_pools(self, source: Embeddings) -> dict[str, list[float]]:
        """The metrics of all pools by tag."""
        source = order_embeddings(source, self._split)
        if self._reranker is not None and self.options.task not in source.predictions:
            raise UserError(
                f"{source.place} has no predictions of task {self.options.task!r} for reranking."
            )
        repeats = [
            self._judge_pool(source, *pool, asking)
            for pool, asking in zip(self._pools, self._asking, strict=True)
        ]
        return {tag: [each[tag] for each in repeats] for tag in repeats[0]}

    def _judge_pool(
        self, source: Embeddings, images: np.ndarray, captions: np.ndarray, asking: np.ndarray
    ) -> dict[str, float]:
        """Metrics of the pairs at the given positions, over those that are queries."""
        pool = dataclasses.replace(
            source,
            images=source.images[images],
            captions=source.captions[captions],
            predictions={
                task: each.take(images, captions) for task, each in source.predictions.items()
            },
            tokens=source.take_tokens({"image": images, "text": captions}),
        )
        scores = open_scores(pool, mesh=self._mesh, precision=self.options.precision)
        between = scores["image", "text"]
        positives = self._find_positives(images, captions)
        own = {name: [DirectionLabels(each, ("recall@1",))] for name, each in positives.items()}
        if self._reranker is None:
            answers = dict(zip(own, rank_directions(between, *own.values()), strict=True))
        else:  # A row of one direction is not a column of the other.
            predictions, apply = pool.predictions[self.options.task], self._reranker
            answers = {
                direction: rank_queries(
                    RerankedScores(between, predictions, apply, transposed=direction == "t2i"),
                    own[direction],
                )
                for direction in self.options.directions
            }
        metrics = {}
        for direction in self.options.directions:
            rank = answers[direction][0].rank[asking] + 1
            metrics[f"{direction}/median_rank"] = float(np.median(rank))
            for depth in _DEPTHS:
                metrics[f"{direction}/recall@{depth}"] = 100.0 * float(np.mean(rank <= depth))
        return metrics


def _draw_pool(split: Split, options: PoolsOptions, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the images and of the captions of a pool, pair by pair."""
    generator = np.random.default_rng([options.seed, repeat])
    image_ids, caption_ids = np.asarray(split.image_ids), np.asarray(split.caption_ids)
    owner = Positions("image", image_ids)(split.caption_image_ids)
    # Sorted by id, so that the order of the records does not matter.
    order = np.lexsort([caption_ids, image_ids[owner]])
    counts = np.bincount(owner, minlength=len(image_ids))
    with_caption = np.argsort(image_ids, kind="stable")
    with_caption = with_caption[counts[with_caption] > 0]
    firsts = np.concatenate([[0], np.cumsum(counts[with_caption])[:-1]])
    size = min(options.size, len(with_caption))
    chosen = generator.choice(len(with_caption), size, replace=False)
    which = (generator.random(size) * counts[with_caption[chosen]]).astype(np.int64)
    return with_caption[chosen], order[firsts[chosen] + which]
