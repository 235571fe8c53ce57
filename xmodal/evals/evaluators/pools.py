"""Retrieval in random pools of pairs, as in CMCM (Alikhani et al. 2022)."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np

from xmodal.core.config import lookup, setting
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.evaluator import Evaluator, Options
from xmodal.evals.labels.definitions import PUBLIC
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged, own_pairs
from xmodal.evals.labels.split import describe_texts, number_texts
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.results import Result
from xmodal.evals.scores.ranks import rank_directions
from xmodal.evals.scores.rerank import RerankedScores, make_reranker, predictions_of
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.sources import Embeddings, ModelAdapter
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
      labels: label column, 0/1 [N, C], that `only_with` and `without` refer to.
      only_with: names of relations in that column; only captions with any of these are queries.
      without: names of relations in that column; captions with any of these are not queries.
    """

    size: int = setting(500, at_least=1)
    repeats: int = setting(10, at_least=1)
    directions: tuple[str, ...] = setting(("t2i",), one_of=("t2i", "i2t"))
    reranker: Mapping[str, Any] | None = None
    task: str = ""
    labels: str = "relations"
    only_with: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    needs: ClassVar[frozenset[str]] = frozenset({"image", "text"})

    @property
    def labels_read(self) -> tuple[str, ...]:
        """See `Options`."""
        return (self.labels,) if self.only_with or self.without else ()

    def check(self, where: str) -> None:
        """See `Options`."""
        super().check(where)
        make_reranker(f"{where}.reranker", self.reranker, of_rows=True)

    def default_metric(self, dataset: str) -> str:
        """See `Options`."""
        return f"{self.directions[0]}/recall@10"


class PoolsEvaluator(Evaluator):
    """Median rank and recalls in pools, see `Evaluator`.

    A pool has `size` images, drawn without replacement, and one caption of each. Every caption
    ranks the images of its pool; its own image is the only positive, or, on data without a
    published protocol, all images that have its text. Pools depend only on the seed
    and the ids, so they are the same for all models. A median halfway between two ranks is not
    rounded. The options `only_with` and `without` remove queries but no gallery items; pools that
    are left without a query are dropped.
    """

    options: PoolsOptions
    samples = "pools"

    def _read(self, modalities: Collection[str]) -> None:
        options, split = self.options, self.split
        self._reranker: Any = make_reranker(
            f"{self._where}.reranker", options.reranker, of_rows=True
        )
        image_ids, caption_ids = np.asarray(split.image_ids), np.asarray(split.caption_ids)
        owner = Positions("image", image_ids)(split.caption_image_ids)
        self._pools = _draw_pools(image_ids, caption_ids, owner, options)
        if len({frozenset(captions.tolist()) for _, captions in self._pools}) == 1:
            # All pairs: judging them again adds no information and would look like certainty.
            self._pools = self._pools[:1]
        self._size, is_public = len(self._pools[0][0]), split.name in PUBLIC
        asking = self._find_queries()
        self._pools = [each for each in self._pools if asking[each[0]].any()]
        if not self._pools:
            raise UserError(
                f"{self._where} has no queries: no caption of its pools has a relation of "
                f"only_with={options.only_with} and none of without={options.without}; change them."
            )
        self._asking = [asking[images] for images, _ in self._pools]
        texts = number_texts(split.caption_texts)
        notes = describe_texts(split.name, texts, split.caption_image_ids)
        self.provenance = dataclasses.replace(self.provenance, notes=notes)
        pairs = own_pairs(owner, owner, None if is_public else texts)["i2t"]
        self._pairs = Ragged.from_pairs(pairs[0], pairs[1], len(image_ids))
        for images, captions in self._pools:
            self._label_hash.add("pool", image_ids[images], caption_ids[captions])
            if not is_public:
                self._label_hash.add("texts", caption_ids[captions], texts[captions])
        self._definition = (
            f"Median rank and recalls in {len(self._pools)} random pools of {self._size} pairs: "
            f"mean and population standard deviation; seed {options.seed}."
        )
        if options.labels_read:
            for (_, captions), each in zip(self._pools, self._asking, strict=True):
                self._label_hash.add("asking", caption_ids[captions][each])
            count = np.mean([np.sum(each) for each in self._asking])
            words = {"with any of": options.only_with, "without": options.without}
            kinds = " and ".join(f"{word} {', '.join(x)}" for word, x in words.items() if x)
            self._definition += f" Queries: the {count:.0f} on average {kinds}."
        if options.reranker is not None:
            listed = [f"{key} {x}" for key, x in options.reranker.items() if key != "name"]
            self._definition += f" Reranked by {options.reranker['name']} ({', '.join(listed)})."

    def _find_queries(self) -> np.ndarray:
        """Whether the captions of each image are queries, bool [N]."""
        options = self.options
        asking = np.ones(len(self.split.image_ids), bool)
        if options.labels_read:
            labels = self._column(options.labels)
            known = {x: at for at, x in enumerate(self.split.label_names.get(options.labels, ()))}
            for name, wanted in (("only_with", True), ("without", False)):
                if names := getattr(options, name):
                    chosen = [lookup(f"{self._where}.{name}", each, known) for each in names]
                    has = np.any(labels.reshape(len(labels), -1)[:, chosen] > 0, axis=1)
                    asking &= has == wanted
        return asking

    def tags(self, modalities: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        return [f"{tag}{end}" for tag in self._guess() for end in ("", "_std")]

    def _chance(self) -> dict[str, float]:
        # Not known for texts with different numbers of positives.
        return {} if len(self._pairs.values) > len(self.split.caption_ids) else self._guess()

    def _guess(self) -> dict[str, float]:
        found = {"median_rank": (self._size + 1) / 2}
        found |= {f"recall@{depth}": 100.0 * min(depth / self._size, 1) for depth in _DEPTHS}
        return {f"{side}/{tag}": x for side in self.options.directions for tag, x in found.items()}

    def run(self, adapter: ModelAdapter) -> list[Result]:
        """See `Evaluator`."""
        source, repeats = self._ordered(adapter), dict[str, list[float]]()
        for (images, captions), asking in zip(self._pools, self._asking, strict=True):
            ranks = self._rank_pool(source.take(images, captions), images, captions)
            for direction in self.options.directions:
                rank = ranks[direction][asking]
                values = {f"recall@{depth}": 100.0 * np.mean(rank <= depth) for depth in _DEPTHS}
                for metric, value in {"median_rank": np.median(rank), **values}.items():
                    repeats.setdefault(f"{direction}/{metric}", []).append(float(value))
        metrics: dict[str, float] = {}
        for tag, found in repeats.items():
            metrics |= {tag: float(np.mean(found)), f"{tag}_std": float(np.std(found))}
        return [self._result(metrics, repeats)]

    def find_gaps(self, adapter: ModelAdapter) -> tuple[np.ndarray, np.ndarray]:
        """Returns how far apart the best two scores of every query caption are, and its rank.

        Args:
          adapter: a model with embeddings.

        Returns:
          Best less second-best score before any reranking, float [Q], for the queries of all
          pools; and the ranks of their own images from 1, int [Q], after it.
        """
        source, gaps, ranks = self._ordered(adapter), list[np.ndarray](), list[np.ndarray]()
        for (images, captions), asking in zip(self._pools, self._asking, strict=True):
            pool = source.take(images, captions)
            ranks.append(self._rank_pool(pool, images, captions)["t2i"][asking])
            for _, rows in self._open(pool).transpose().blocks(np.flatnonzero(asking)):
                best = np.partition(rows, -2, axis=1)
                gaps.append(best[:, -1] - best[:, -2])
        return np.concatenate(gaps), np.concatenate(ranks)

    def _open(self, pool: Embeddings) -> Scores:
        """The scores of the images and captions of a pool."""
        opened = open_scores(pool, mesh=self._mesh, precision=self.options.precision)
        return opened["image", "text"]

    def _rank_pool(
        self, pool: Embeddings, images: np.ndarray, captions: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Direction -> ranks from 1 of the first positives of the items at these positions."""
        scores = self._open(pool)
        if self._reranker is not None:
            predictions = predictions_of(pool, self.options.task)
            scores = RerankedScores(scores, predictions, self._reranker)
        rows, columns = np.nonzero(self._pairs.contains(images[:, None], captions))
        asked = [
            [DirectionLabels(Ragged.from_pairs(*ends, num_rows=len(images)), ("recall@1",))]
            for ends in ((rows, columns), (columns, rows))
        ]
        (of_images,), (of_captions,), _ = rank_directions(scores, *asked)
        return {"i2t": 1 + of_images.rank, "t2i": 1 + of_captions.rank}


def _draw_pools(
    image_ids: np.ndarray, caption_ids: np.ndarray, owner: np.ndarray, options: PoolsOptions
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions of the images and of the captions of every pool, pair by pair.

    `owner`: int [M], position of every caption's image.
    """
    # Sorted by id, so that the order of the records does not matter.
    order = np.lexsort([caption_ids, image_ids[owner]])
    _, firsts, counts = np.unique(image_ids[owner][order], return_index=True, return_counts=True)
    size, pools = min(options.size, len(firsts)), []
    for repeat in range(options.repeats):
        generator = np.random.default_rng([options.seed, repeat])
        chosen = generator.choice(len(firsts), size, replace=False)
        which = (generator.random(size) * counts[chosen]).astype(np.int64)
        captions = order[firsts[chosen] + which]
        pools.append((owner[captions], captions))
    return pools
