"""Correlation of a model's scores with gold scores for sentence pairs, as in SemEval STS."""

import dataclasses
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.evaluators.evaluator import Evaluator, Options, Repeats, Split
from xmodal.evals.labels.ids import Positions
from xmodal.evals.reports.metrics import compute_influence, compute_pearson_influence
from xmodal.evals.reports.uncertainty import compute_pairs_interval
from xmodal.evals.scores.sources import Embeddings, ModelAdapter
from xmodal.evals.scores.vector_scores import score_captions

_CORRELATIONS = ("pearson", "spearman")


@dataclasses.dataclass(frozen=True)
class EmbeddingSimilarityOptions(Options):
    """Options of correlations over sentence pairs: only the common ones."""

    needs: ClassVar[frozenset[str]] = frozenset({"text"})


# A correlation in -1..1, and the influence of each of its pairs, float [R].
_Correlation = tuple[float, np.ndarray]


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
        self._years = {
            int(year): [name for name, rows in self._sets.items() if year in years[rows]]
            for year in sorted(set(years) - {0})
        }
        self._ends = _find_pairs(self._split)
        texts = np.unique(np.asarray(self._split.caption_texts, object), return_inverse=True)[1]
        self._texts = np.stack([texts[end] for end in self._ends])
        self._label_hash.add("pairs", np.asarray(self._split.image_ids), self._gold)
        self._definition = (
            "Correlation of scores with gold scores of sentence pairs, per set. avg: the "
            "unweighted mean over the sets of a year; all: over the pairs of its sets together. "
            "Intervals: 95 %, treating the sentences as a random sample."
        )

    def tags(self, modalities: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        years = [f"{kind}{year}" for year in self._years for kind in ("avg", "all")]
        names = [f"{name}/{metric}" for name in (*self._sets, *years) for metric in _CORRELATIONS]
        return names + [f"{name}/pairs" for name in self._sets]

    def _chance(self) -> dict[str, float]:
        correlations = (tag for tag in self.tags(("text",)) if not tag.endswith("/pairs"))
        return dict.fromkeys(correlations, 0.0)

    def embeddings(self, adapter: ModelAdapter, split: Split | None = None) -> Embeddings:
        """See `Evaluator`; without images."""
        found = super().embeddings(adapter, split)
        return dataclasses.replace(found, image_ids=None, images=None, predictions={})

    def _compute(self, source: Embeddings) -> tuple[dict[str, float], Repeats]:
        values = score_captions(source, *self._ends, self.options.precision).astype(np.float64)
        found = {name: (rows, self._correlate(values, rows)) for name, rows in self._sets.items()}
        for year, names in self._years.items():
            places, of_sets = zip(*(found[name] for name in names), strict=True)
            rows, means = np.concatenate(places), dict[str, _Correlation]()
            for metric in _CORRELATIONS:
                each, influence = zip(*(of_set[metric] for of_set in of_sets), strict=True)
                means[metric] = float(np.mean(each)), np.concatenate(influence) / len(names)
            found[f"avg{year}"] = rows, means
            found[f"all{year}"] = rows, self._correlate(values, rows)
        metrics: dict[str, float] = {}
        for name, (rows, correlations) in found.items():
            for metric, (value, influence) in correlations.items():
                low, high = compute_pairs_interval(value, self._texts[:, rows], influence)
                tag = f"{name}/{metric}"
                metrics |= {tag: value, f"{tag}_low": low, f"{tag}_high": high}
            if name in self._sets:
                metrics[f"{name}/pairs"] = float(len(rows))
        return metrics, {}

    def _correlate(self, values: np.ndarray, rows: np.ndarray) -> dict[str, _Correlation]:
        """Both correlations over the pairs at `rows`."""
        from scipy import stats  # Takes half a second to import, and few runs evaluate pairs.

        found, gold = values[rows], self._gold[rows]
        if len(gold) < 2 or np.ptp(found) == 0 or np.ptp(gold) == 0:
            return dict.fromkeys(_CORRELATIONS, (float("nan"), np.full(len(rows), np.nan)))
        pearson, spearman = (f(found, gold).statistic for f in (stats.pearsonr, stats.spearmanr))
        shares = np.full(len(rows), 1 / len(rows))
        return {
            "pearson": (float(pearson), compute_pearson_influence(found, gold)),
            "spearman": (float(spearman), compute_influence(found, gold, shares)),
        }


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
