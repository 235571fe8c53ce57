"""Losses: pure functions of prepared embeddings [B, D] and the groups that are not negatives."""

from collections.abc import Callable

from xmodal.losses.contrastive import softmax_loss

LOSSES: dict[str, Callable] = {"softmax": softmax_loss}

__all__ = ["LOSSES", "softmax_loss"]
