"""Classification by the nearest neighbors of an image in a training split."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import setting
from xmodal.evals.evaluators.classification import ClassificationEvaluator, Classifier, ProbeOptions
from xmodal.evals.scores.sources import Provider

_BLOCK = 1024  # Images per product.


@dataclasses.dataclass(frozen=True)
class KnnOptions(ProbeOptions):
    """Options of nearest neighbors.

    Attributes:
      k: number of neighbors; all training images if there are fewer.
      temperature: divides the cosines in the weights of votes.
    """

    k: int = setting(200, at_least=1)
    temperature: float = setting(0.07, above=0)


def _describe(options: KnnOptions) -> str:
    return (
        f"votes of the {options.k} nearest images of {options.train_split} by cosine s, with "
        f"weights exp(s / {options.temperature:g}); a class without a vote has no rank."
    )


def _score(
    evaluator: ClassificationEvaluator, provider: Provider
) -> tuple[np.ndarray, dict[str, float]]:
    options: Any = evaluator.options
    scores = vote(
        evaluator.features(provider),
        *evaluator.train_features(provider),
        classes=len(evaluator.names),
        k=options.k,
        temperature=options.temperature,
    )
    return scores, {}


KNN = Classifier(_describe, _score)
"""Weighted votes of the k nearest neighbors by cosine (Wu et al. 2018, equation 11).

Of equally near neighbors at the k-th place, those with the lowest ids vote.
"""


def vote(
    queries: np.ndarray,
    train: np.ndarray,
    labels: np.ndarray,
    *,
    classes: int,
    k: int,
    temperature: float,
) -> np.ndarray:
    """Returns the logarithm of the votes for every class, float32 [N, C]; -inf without a vote.

    Args:
      queries: float32 [N, D] of unit length.
      train: float32 [M, D] of unit length; of equally near neighbors, the first count.
      labels: int [M], their classes.
      classes: number C of classes.
      k: number of neighbors.
      temperature: divides the cosines.
    """
    nearest = jax.jit(functools.partial(_nearest, k=min(k, len(train))))
    found = np.full((len(queries), classes), -np.inf, np.float32)
    gallery = jnp.asarray(train)
    for start in range(0, len(queries), _BLOCK):
        block = queries[start : start + _BLOCK]
        padded = np.pad(block, [(0, _BLOCK - len(block)), (0, 0)])  # One shape is compiled.
        cosines, at = (np.asarray(each)[: len(block)] for each in nearest(padded, gallery))
        rows = np.broadcast_to(np.arange(start, start + len(block))[:, None], at.shape)
        # Logarithms, since exp(1 / temperature) can exceed float32.
        np.logaddexp.at(found, (rows, labels[at]), cosines / np.float32(temperature))
    return found


def _nearest(queries: jax.Array, train: jax.Array, *, k: int) -> tuple[jax.Array, jax.Array]:
    return jax.lax.top_k(jnp.matmul(queries, train.T, precision=jax.lax.Precision.HIGHEST), k)
