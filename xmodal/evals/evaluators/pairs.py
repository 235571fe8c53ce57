"""Correlation of a model's scores with gold scores of sentence pairs, as in SemEval STS."""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from scipy import stats

from xmodal.config import UserError
from xmodal.evals.boards.ids import Positions
from xmodal.evals.evaluators.evaluator import NumbersEvaluator, Options, Split
from xmodal.evals.inputs.galleries import order_embeddings
from xmodal.evals.inputs.sources import Embeddings
from xmodal.evals.ranking.products import open_scores


@dataclasses.dataclass(frozen=True)
class PairsOptions(Options):
    """Options of correlations over sentence pairs: those of every type."""


class PairsEvaluator(NumbersEvaluator):
    """Pearson and Spearman correlations per set, see `Evaluator`.

    The two captions of a record are its pair. Label columns: `score`, the gold score; `set`, the
    name of the set; `average`, a year over whose sets correlations are averaged without weights,
    as `avg<year>`, or 0. Correlations are in -1..1, as SemEval prints them.
    """

    options: PairsOptions

    def _read(self, sides: Collection[str]) -> None:
        if "text" not in sides:
            raise UserError(f"{self._where} compares sentences, but the model has no text side.")
        self._gold = self._column("score").astype(np.float64)
        self._sets, self._average = self._column("set"), self._column("average")
        self._ends = _find_pairs(self._split)
        self._label_hash.add("pairs", np.asarray(self._split.image_ids), self._gold)
        self._definition = (
            "Correlation of scores with gold scores of sentence pairs, set by set; averages over "
            "the sets of a year have no weights."
        )

    def tags(self, sides: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        del sides
        correlations = ("pearson", "spearman")
        sets = [
            f"{name}/{metric}"
            for name in dict.fromkeys(self._sets)
            for metric in (*correlations, "pairs")
        ]
        years = sorted(set(self._average) - {0})
        return sets + [f"avg{int(year)}/{metric}" for year in years for metric in correlations]

    def _compute(self, source: Embeddings) -> dict[str, float]:
        source = dataclasses.replace(source, image_ids=None, images=None, predictions={})
        scores = open_scores(order_embeddings(source, self._split), mesh=self._mesh)
        scores["text", "text"].check_finite(self._where)
        values = scores["text", "text"].pairs(*self._ends)
        metrics: dict[str, float] = {}
        averaged: dict[int, list[str]] = {}
        for name in dict.fromkeys(self._sets):
            rows = self._sets == name
            gold, found = self._gold[rows], values[rows].astype(np.float64)
            metrics[f"{name}/pearson"] = _correlate(stats.pearsonr, found, gold)
            metrics[f"{name}/spearman"] = _correlate(stats.spearmanr, found, gold)
            metrics[f"{name}/pairs"] = float(rows.sum())
            for number in set(self._average[rows]) - {0}:
                averaged.setdefault(int(number), []).append(name)
        for number, names in sorted(averaged.items()):
            for metric in ("pearson", "spearman"):
                each = [metrics[f"{name}/{metric}"] for name in names]
                metrics[f"avg{number}/{metric}"] = float(np.mean(each))
        return metrics


def _find_pairs(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the two captions of every record, int64 [N] each."""
    record = Positions("record", split.image_ids)(split.caption_image_ids)
    counts = np.bincount(record, minlength=len(split.image_ids))
    if (counts != 2).any():
        wrong = int((counts != 2).argmax())
        raise UserError(
            f"Record {split.image_ids[wrong]} of {split.name} has {counts[wrong]} sentences; the "
            "evaluator 'pairs' needs two of every record."
        )
    first, second = np.argsort(record, kind="stable").reshape(-1, 2).T
    return first, second


def _correlate(function: Callable[..., Any], scores: np.ndarray, gold: np.ndarray) -> float:
    if len(gold) < 2 or np.ptp(scores) == 0 or np.ptp(gold) == 0:
        return float("nan")
    return float(function(scores, gold).statistic)
