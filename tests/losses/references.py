"""Losses as slow loops in float64, each straight from its definition.

Most functions take the scores of all pairs, float64 [B, B], and ids [B].
"""

import numpy as np


def score_pairs(name, left, right):
    """Logits [L, R] of vectors [N, D] or [N, K, D], one pair at a time."""
    return np.array([[score_pair(name, x, y) for y in right] for x in left])


def score_pair(name, x, y):
    """The similarity of two items, [D] or [K, D] each."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if name == "dot":
        return x @ y
    if name == "cosine":
        return x @ y / (np.linalg.norm(x) * np.linalg.norm(y))
    if name == "euclidean":
        return -np.linalg.norm(x - y)
    if name == "order":
        return -np.linalg.norm(np.maximum(0, y - x))
    pairs = [(a, b) for a in np.atleast_2d(x) for b in np.atleast_2d(y)]
    if name == "max_cosine":
        return max(score_pair("cosine", a, b) for a, b in pairs)
    return match_log_odds([np.sqrt(np.sum((a - b) ** 2) + 1e-6) for a, b in pairs], 15.0, 15.0)


def match_log_odds(distances, scale, shift):
    """Log-odds of the mean match probability, given distances between samples."""
    logits = 2 * (shift - scale * np.asarray(distances, np.float64))
    matches, differs = (
        -np.logaddexp.reduce(np.stack([np.zeros_like(logits), sign * logits]), axis=0)
        for sign in (-1, 1)
    )
    return np.logaddexp.reduce(matches) - np.logaddexp.reduce(differs)


def _queries(scores, ids):
    """(positive, negatives) for every query in both directions."""
    for matrix in (scores, scores.T):
        for i, row in enumerate(matrix):
            yield row[i], [s for j, s in enumerate(row) if ids[j] != ids[i]]


def softmax(scores, ids, form="with_positive", directions="mean"):
    total = 0.0
    for positive, negatives in _queries(scores, ids):
        if negatives:
            terms = [positive, *negatives] if form == "with_positive" else negatives
            total += np.logaddexp.reduce(terms) - positive
    return total / len(scores) * {"mean": 0.5, "sum": 1.0}[directions]


def _classification(scores, ids):
    total = 0.0
    for i, row in enumerate(scores):
        for j, score in enumerate(row):
            if i == j:
                total += np.logaddexp(0, -score)
            elif ids[i] != ids[j]:
                total += np.logaddexp(0, score)
    return total


def sigmoid(scores, ids):
    return _classification(scores, ids) / len(scores)


def soft_contrastive(scores, ids, directions="sum"):
    return {"mean": 1, "sum": 2}[directions] * _classification(scores, ids)


def divergence(samples, log_sigma):
    """PCME's divergence of one view."""
    total = 0.0
    for item, spread in zip(samples.astype(np.float64), log_sigma.astype(np.float64), strict=True):
        for mean, value in zip(item.mean(axis=0), spread, strict=True):
            total -= 0.5 * (1 + value - mean**2 - np.exp(value))
    return total


def triplet(scores, ids, margin=0.2, mining="hardest", reduction="sum"):
    total = 0.0
    for positive, negatives in _queries(scores, ids):
        if mining.startswith("semi_hard"):
            below = [s for s in negatives if s < positive]
            if mining == "semi_hard_or_easiest" and not below:
                below = sorted(negatives)[:1]
            negatives = below
        costs = [max(0.0, margin + s - positive) for s in negatives]
        total += sum(costs) if mining == "all" else max(costs, default=0.0)
    if reduction == "mean":
        total /= len(scores) ** (2 if mining == "all" else 1)
    return total


def distance_triplet(name, left, right, ids, margin=0.3):
    items, ids = np.concatenate([left, right]), np.tile(ids, 2)
    scores, size = score_pairs(name, items, items), len(left)
    total = 0.0
    for i, row in enumerate(scores):
        hardest = max(s for j, s in enumerate(row) if ids[j] != ids[i])
        total += max(0.0, margin + hardest - row[(i + size) % (2 * size)])
    return total / len(items)


def shuffled_pairs(scores, order):
    """The 2B scores and labels of VETE's losses."""
    size = len(scores)
    x = [scores[i, i] for i in range(size)] + [scores[i, order[i]] for i in range(size)]
    return x, [1.0] * size + [-1.0] * size


def covariance(scores, order):
    x, y = shuffled_pairs(scores, order)
    return -(np.mean(np.multiply(x, y)) - np.mean(x) * np.mean(y))


def pearson(scores, order):
    x, y = shuffled_pairs(scores, order)
    return covariance(scores, order) / np.sqrt(np.var(x) + 1e-8) / np.std(y)


def soft_kendall(scores, order, alpha):
    x, y = shuffled_pairs(scores, order)
    n, total = len(x), 0.0
    for i in range(n):
        for j in range(n):
            total += np.tanh(alpha * (x[i] - x[j]) * (y[i] - y[j]))
    return -total / (n * (n - 1) / 2)


def relation_bce(logits, labels, weights, others=None):
    """Equation 2 of CMCM with its sign put right, where `others` are the `weights`."""
    total, others = 0.0, others or [1] * len(weights)
    for row, wanted in zip(logits.astype(np.float64), labels, strict=True):
        for logit, label, *weight in zip(row, wanted, others, weights, strict=True):
            total += weight[label] * np.logaddexp(0, -logit if label else logit)
    return total / logits.size
