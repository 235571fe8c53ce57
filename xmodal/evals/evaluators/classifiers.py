"""Three ways to classify images: by prompts, by nearest neighbors, by a linear probe."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import lookup, setting
from xmodal.evals.evaluators.classification import (
    ClassificationEvaluator,
    ClassificationOptions,
    read_lines,
)
from xmodal.evals.scores.score_rows import top_items
from xmodal.evals.scores.sources import ModelAdapter

Scored = tuple[np.ndarray, dict[str, float]]

# Named sets of prompt templates. `seven` are those that CLIP's authors selected for ImageNet.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "name": ("{}",),
    "photo": ("a photo of a {}.",),
    "seven": (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    ),
}


_BLOCK = 1024  # Images per product.
_STEPS = 1000  # Most iterations of L-BFGS.


@dataclasses.dataclass(frozen=True)
class ZeroShotOptions(ClassificationOptions):
    """Zero-shot classification (Radford et al. 2021, 3.1): images against prompts of the classes.

    The vector of a class is the normalized mean of the normalized embeddings of its prompts. It
    needs a model with a text tower: a file has no embeddings of prompts.

    Attributes:
      templates: prompts, in which `{}` stands for the name of a class, with spaces for its
        underscores ("apple_pie"); an entry without `{}` is the name of a set in `TEMPLATES`, and
        one that ends in .txt a file with one such entry per line.
    """

    templates: tuple[str, ...] = ("photo",)

    needs: ClassVar[frozenset[str]] = frozenset({"image", "text"})

    def check(self, where: str) -> None:
        """See `Options`."""
        super().check(where)
        self.find_prompts(f"{where}.templates (a prompt contains {{}})")

    def find_prompts(self, where: str = "templates") -> list[str]:
        """Returns all templates, with those of the named sets; `where` names them in messages."""
        entries = read_lines(self.templates)
        sets = ([each] if "{}" in each else lookup(where, each, TEMPLATES) for each in entries)
        return list(dict.fromkeys(itertools.chain(*sets)))

    def describe(self) -> str:
        """See `ClassificationOptions`."""
        prompts = self.find_prompts()
        return (
            "cosine of the image and the normalized mean of the normalized embeddings of "
            f"{len(prompts)} prompts per class, the first is {prompts[0]!r}."
        )

    def score(self, evaluator: ClassificationEvaluator, adapter: ModelAdapter) -> Scored:
        """See `ClassificationOptions`."""
        embed = functools.partial(adapter.embed, "text", similarity=self.similarity)
        unit = functools.partial(evaluator.unit, place=adapter.place)
        classes = self.embed_classes(evaluator.names, embed, unit)
        # A product of equal vectors may depend on their places; one of each has equal scores.
        classes, same = np.unique(classes, axis=0, return_inverse=True)
        return (evaluator.features(adapter) @ classes.T)[:, same.ravel()], {}

    def embed_classes(
        self,
        names: Sequence[str],
        embed: Callable[[list[str]], Any],
        unit: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Returns a vector of unit length per class, float32 [C, D].

        Args:
          names: names of the classes.
          embed: texts -> vectors [T, D].
          unit: vectors [N, D] -> vectors of unit length.
        """
        prompts = self.find_prompts()
        texts = [each.replace("{}", x.replace("_", " ")) for x in names for each in prompts]
        # Classes may share a prompt; every text is embedded once.
        unique, rows = np.unique(texts, return_inverse=True)
        vectors = unit(embed(unique.tolist()))[rows]
        return unit(vectors.reshape(len(names), len(prompts), -1).mean(axis=1))


@dataclasses.dataclass(frozen=True)
class KnnOptions(ClassificationOptions):
    """Weighted votes of the k nearest neighbors by cosine (Wu et al. 2018, equation 11).

    Of equally near neighbors at the k-th place, those with the lowest ids vote.

    Attributes:
      train_split: split of the same dataset to train on.
      k: number of neighbors; all training images if there are fewer.
      temperature: divides the cosines in the weights of votes.
    """

    train_split: str = "train"
    k: int = setting(200, at_least=1)
    temperature: float = setting(0.07, above=0)

    def describe(self) -> str:
        """See `ClassificationOptions`."""
        return (
            f"votes of the {self.k} nearest images of {self.train_split} by cosine s, with "
            f"weights exp(s / {self.temperature:g}); a class without a vote has no rank."
        )

    def score(self, evaluator: ClassificationEvaluator, adapter: ModelAdapter) -> Scored:
        """See `ClassificationOptions`."""
        queries, (train, labels) = evaluator.features(adapter), evaluator.train_features(adapter)
        found = np.full((len(queries), len(evaluator.names)), -np.inf, np.float32)
        for start in range(0, len(queries), _BLOCK):
            cosines = queries[start : start + _BLOCK] @ train.T
            at = top_items(cosines, self.k)
            rows = np.arange(start, start + len(at))[:, None]
            # Logarithms, since exp(1 / temperature) can exceed float32.
            votes = np.take_along_axis(cosines, at, axis=1) / np.float32(self.temperature)
            np.logaddexp.at(found, (rows, labels[at]), votes)
        return found, {}


@dataclasses.dataclass(frozen=True)
class LinearProbeOptions(ClassificationOptions):
    """Logistic regression by L-BFGS on features of unit length (Radford et al. 2021, A.3).

    The regularization is chosen by accuracy on the held-out part of the training split; of equally
    good ones, the strongest. The classifier is then fitted to the whole split. The metric
    `regularization` is the chosen weight.

    Attributes:
      train_split: split of the same dataset to train on.
      regularization: weights of the squared norm to choose from, on the held-out part.
      held_out: share of the training images that chooses among them; not used with one weight.
    """

    train_split: str = "train"
    regularization: tuple[float, ...] = setting((1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1), above=0)
    held_out: float = setting(0.2, above=0, below=1)

    ranks_by: ClassVar[str] = "logits"
    figures: ClassVar[tuple[str, ...]] = ("regularization",)

    def describe(self) -> str:
        """See `ClassificationOptions`."""
        return (
            f"logistic regression on the images of {self.train_split}; regularization is one of "
            f"{list(self.regularization)}, by {100 * self.held_out:g} % of these images."
        )

    def score(self, evaluator: ClassificationEvaluator, adapter: ModelAdapter) -> Scored:
        """See `ClassificationOptions`."""
        features, labels = evaluator.train_features(adapter)
        learn = functools.partial(fit, classes=len(evaluator.names))
        weights = sorted(self.regularization, reverse=True)
        order = np.random.default_rng(self.seed).permutation(len(labels))
        count = int(np.clip(round(self.held_out * len(order)), 1, len(order) - 1))
        held_out, rest = order[:count], order[count:]

        def measure(weight: float) -> float:
            matrix, bias = learn(features[rest], labels[rest], weight)
            predicted = (features[held_out] @ matrix + bias).argmax(axis=1)
            return float(np.mean(predicted == labels[held_out]))

        best = max(weights, key=measure) if len(weights) > 1 else weights[0]
        matrix, bias = learn(features, labels, best)
        return evaluator.features(adapter) @ matrix + bias, {"regularization": best}


def fit(
    features: np.ndarray, labels: np.ndarray, regularization: float, *, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights [D, C] and biases [C], float32, of a multinomial logistic regression.

    It minimizes the mean cross entropy plus `regularization` / 2 times the squared norm of the
    weights, which leaves out the biases, by L-BFGS from zero.

    Args:
      features: float32 [M, D].
      labels: int [M].
      regularization: weight of the squared norm.
      classes: number C of classes.
    """
    from scipy import optimize  # Takes long to import, and few runs have a probe.

    inputs, shape = jnp.asarray(features), (features.shape[1] + 1, classes)

    def objective(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = _loss(flat.reshape(shape).astype(np.float32), inputs, labels, regularization)
        value, gradient = (np.asarray(each, np.float64) for each in found)
        return value, gradient.ravel()

    options = {"maxiter": _STEPS, "ftol": 1e-9, "gtol": 1e-6}
    start = np.zeros(math.prod(shape))
    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    matrix = found.x.reshape(shape).astype(np.float32)
    return matrix[:-1], matrix[-1]


@jax.jit
@jax.value_and_grad
def _loss(
    parameters: jax.Array, features: jax.Array, labels: jax.Array, regularization: jax.Array
) -> jax.Array:
    """The objective of `fit`, with its gradient."""
    weights, bias = parameters[:-1], parameters[-1]
    logits = jnp.matmul(features, weights, precision=jax.lax.Precision.HIGHEST) + bias
    entropies = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return jnp.mean(entropies) + 0.5 * regularization * jnp.sum(jnp.square(weights))
