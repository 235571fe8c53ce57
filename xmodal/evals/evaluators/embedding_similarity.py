"""Correlation of a model's scores with gold scores for sentence pairs, as in SemEval STS."""

import dataclasses
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.evaluators.evaluator import Evaluator, Options, Split
from xmodal.evals.labels.ids import Positions
from xmodal.evals.reports.metrics import compute_influence
from xmodal.evals.reports.uncertainty import compute_correlation_interval
from xmodal.evals.scores.sources import Embeddings, ModelAdapter
from xmodal.evals.scores.vector_scores import score_captions

_CORRELATIONS = ("pearson", "spearman")


@dataclasses.dataclass(frozen=True)
class EmbeddingSimilarityOptions(Options):
    """Options of correlations over sentence pairs: only the common ones."""

    needs: ClassVar[frozenset[str]] = frozenset({"text"})


class EmbeddingSimilarityEvaluator(Evaluator):
    """Pearson and Spearman correlations per set with their intervals, see `Evaluator`.

    The two captions of a record are its pair. Label columns: `score`, the gold score; `set`, the
    name of the set; `average`, the year of the set, or 0. For every year there are `avg<year>`, the
    unweighted mean of the correlations of its sets, as SemEval and VETE report, and `all<year>`,
    the correlation over the pairs of all its sets, as used to compare sentence encoders.
    Correlations are in -1..1, as in SemEval.
    """

    options: EmbeddingSimilarityOptions

    def _read(self, modalities: Collection[str]) -> None:
        self._gold = self._column("score").astype(np.float64)
        sets, years = self._column("set"), self._column("average")
        self._sets = {name: np.flatnonzero(sets == name) for name in dict.fromkeys(sets)}
        # Names of tags -> the rows of the correlations whose mean they are.
        self._groups = {name: [rows] for name, rows in self._sets.items()}
        for year in sorted(set(years) - {0}):
            of_year = [rows for rows in self._sets.values() if year in years[rows]]
            self._groups[f"avg{year}"] = of_year
            self._groups[f"all{year}"] = [np.concatenate(of_year)]
        self._ends = _find_pairs(self.split)
        texts = np.unique(np.asarray(self.split.caption_texts, object), return_inverse=True)[1]
        self._texts = np.stack([texts[end] for end in self._ends])
        self._label_hash.add("pairs", np.asarray(self.split.image_ids), self._gold)
        self._definition = (
            "Correlation of scores with gold scores of sentence pairs, per set. avg: the "
            "unweighted mean over the sets of a year; all: over the pairs of its sets together. "
            "Intervals: 95 %, treating the sentences as a random sample."
        )

    def tags(self, modalities: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        return [*self._chance(), *(f"{name}/pairs" for name in self._sets)]

    def _chance(self) -> dict[str, float]:
        return {f"{name}/{metric}": 0.0 for name in self._groups for metric in _CORRELATIONS}

    def embeddings(self, adapter: ModelAdapter, split: Split | None = None) -> Embeddings:
        """See `Evaluator`; without images."""
        found = super().embeddings(adapter, split)
        return dataclasses.replace(found, image_ids=None, images=None, predictions={})

    def _compute(self, source: Embeddings) -> dict[str, float]:
        values = score_captions(source, *self._ends, self.options.precision).astype(np.float64)
        metrics: dict[str, float] = {}
        for tag in self._chance():
            name, _, metric = tag.rpartition("/")
            parts = self._groups[name]
            found = [_correlate(metric, values[rows], self._gold[rows]) for rows in parts]
            value = float(np.mean([correlation for correlation, _ in found]))
            influence = np.concatenate([each for _, each in found]) / len(parts)
            texts = self._texts[:, np.concatenate(parts)]
            low, high = compute_correlation_interval(value, texts, influence)
            metrics |= {tag: value, f"{tag}_low": low, f"{tag}_high": high}
        return metrics | {f"{name}/pairs": float(len(x)) for name, x in self._sets.items()}


def _correlate(metric: str, found: np.ndarray, gold: np.ndarray) -> tuple[float, np.ndarray]:
    """A correlation of pairs in -1..1, and the influence of each, float [R]."""
    from scipy import stats  # Takes half a second to import, and few runs evaluate pairs.

    if len(gold) < 2 or np.ptp(found) == 0 or np.ptp(gold) == 0:
        return float("nan"), np.full(len(gold), np.nan)
    if metric == "pearson":
        a, b = stats.zscore(found), stats.zscore(gold)
        influence = (a * b - np.mean(a * b) / 2 * (a * a + b * b)) / len(gold)
        return float(stats.pearsonr(found, gold).statistic), influence
    influence = compute_influence(found, gold, np.full(len(gold), 1 / len(gold)))
    return float(stats.spearmanr(found, gold).statistic), influence


def _find_pairs(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the two captions of every record, int64 [N] each."""
    record = Positions("record", split.image_ids)(split.caption_image_ids)
    counts = np.bincount(record, minlength=len(split.image_ids))
    if (counts != 2).any():
        wrong = int((counts != 2).argmax())
        raise UserError(
            f"Record {split.image_ids[wrong]} of {split.name} has {counts[wrong]} sentences; the "
            "evaluator 'embedding_similarity' needs two per record."
        )
    first, second = np.argsort(record, kind="stable").reshape(-1, 2).T
    return first, second
