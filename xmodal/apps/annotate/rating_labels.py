"""Means of ratings, in the layout of Crisscrossed Captions."""

import math
from collections.abc import Iterable

import numpy as np

from data_prep.cxc.cxc_files import RATINGS, THRESHOLDS, file_name, format_cxc_file
from xmodal.apps.annotate.collected import Answer, group, question_of


def mean_ratings(answers: Iterable[Answer]) -> dict[str, dict[str, np.ndarray]]:
    """Returns the mean of every pair that has all its ratings.

    Returns:
      Rating -> `left_ids`, `right_ids` int64 [P], `scores` float64 [P] and `methods` strings [P],
      in the order of the questions.
    """
    counted = [answer for answer in answers if answer.counts]
    found = {}
    for rating, of_rating in group(counted, lambda answer: answer.kind).items():
        pairs = list(group(of_rating, question_of).values())
        first = [ratings[0] for ratings in pairs]
        found[rating] = {
            "left_ids": np.array([each.left for each in first]),
            "right_ids": np.array([each.right for each in first]),
            "scores": np.array([_mean(ratings) for ratings in pairs]),
            "methods": np.array([each.note for each in first]),
        }
    return {rating: found[rating] for rating in RATINGS if rating in found}


def rating_files(means: dict[str, dict[str, np.ndarray]], split: str) -> dict[str, str]:
    """Returns file name -> content."""
    return {
        file_name(rating, split): format_cxc_file(rating, columns)
        for rating, columns in means.items()
    }


def describe_ratings(means: dict[str, dict[str, np.ndarray]]) -> list[list[str]]:
    """Returns rows of rating, method, pairs, mean score, threshold and positive pairs."""
    rows = []
    for rating, columns in means.items():
        for method in dict.fromkeys(columns["methods"].tolist()):
            scores = columns["scores"][columns["methods"] == method]
            positive = int((scores.round(2) >= THRESHOLDS[rating]).sum())
            pairs, mean = f"{len(scores):,}", f"{scores.mean():.2f}"
            rows.append([rating, method, pairs, mean, f"{THRESHOLDS[rating]}", f"{positive:,}"])
    return rows


def _mean(ratings: list[Answer]) -> float:
    return math.fsum(float(each.value) for each in ratings) / len(ratings)
