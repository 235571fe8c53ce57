"""Losses: pure functions of prepared embeddings [B, D] and the groups that are not negatives."""

from collections.abc import Callable

from xmodal.losses.softmax import softmax

LOSSES: dict[str, Callable] = {"softmax": softmax}

__all__ = ["LOSSES", "softmax"]
