"""A linear probe: logistic regression on frozen features (Radford et al. 2021, appendix A.3)."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.classification import ClassificationEvaluator, Classifier, ProbeOptions
from xmodal.evals.scores.sources import Provider

Weights = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class LinearProbeOptions(ProbeOptions):
    """Options of a linear probe.

    Attributes:
      regularization: weights of the squared norm to choose from, on the held-out part.
      held_out: share of the training images that chooses among them; not used with one weight.
      steps: most iterations of L-BFGS.
    """

    regularization: tuple[float, ...] = setting((1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1), above=0)
    held_out: float = setting(0.2, above=0, below=1)
    steps: int = setting(1000, at_least=1)

    def check(self, where: str) -> None:
        """See `Options`."""
        super().check(where)
        if not self.regularization:
            raise UserError(f"{where}.regularization is empty; name at least one weight.")


def _describe(options: LinearProbeOptions) -> str:
    return (
        f"logistic regression on the images of {options.train_split}; regularization is one of "
        f"{list(options.regularization)}, by {100 * options.held_out:g} % of these images."
    )


def _score(
    evaluator: ClassificationEvaluator, provider: Provider
) -> tuple[np.ndarray, dict[str, float]]:
    options: Any = evaluator.options
    features, labels = evaluator.train_features(provider)
    learn = functools.partial(fit, classes=len(evaluator.names), steps=options.steps)
    chosen = _choose(options, features, labels, learn)
    weights, bias = learn(features, labels, chosen)
    return evaluator.features(provider) @ weights + bias, {"regularization": chosen}


def _choose(
    options: LinearProbeOptions, features: np.ndarray, labels: np.ndarray, learn: functools.partial
) -> float:
    weights = sorted(options.regularization, reverse=True)
    if len(weights) == 1:
        return weights[0]
    order = np.random.default_rng(options.seed).permutation(len(labels))
    count = round(options.held_out * len(order))
    if not 0 < count < len(order):
        raise UserError(
            f"held_out={options.held_out} of a linear probe leaves {count} of {len(order)} "
            "training images to choose the regularization; name one in regularization."
        )
    held_out, rest = order[:count], order[count:]
    found = []
    for each in weights:
        matrix, bias = learn(features[rest], labels[rest], each)
        predicted = (features[held_out] @ matrix + bias).argmax(axis=1)
        found.append(float(np.mean(predicted == labels[held_out])))
    return weights[int(np.argmax(found))]


LINEAR_PROBE = Classifier(_describe, _score, "logits", figures=("regularization",))
"""Logistic regression by L-BFGS on features of unit length, see `fit`.

The regularization is chosen by accuracy on the held-out part of the training split; of equally good
ones, the strongest. The classifier is then fitted to the whole split. The metric `regularization`
is the chosen weight.
"""


def fit(
    features: np.ndarray, labels: np.ndarray, regularization: float, *, classes: int, steps: int
) -> Weights:
    """Returns the weights [D, C] and biases [C], float32, of a multinomial logistic regression.

    It minimizes the mean cross entropy plus `regularization` / 2 times the squared norm of the
    weights, which leaves out the biases, by L-BFGS from zero.

    Args:
      features: float32 [M, D].
      labels: int [M].
      regularization: weight of the squared norm.
      classes: number C of classes.
      steps: most iterations.
    """
    from scipy import optimize  # Takes long to import, and few runs have a probe.

    width = features.shape[1]
    inputs, targets = jnp.asarray(features), jnp.asarray(labels)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = jnp.asarray(flat.reshape(width + 1, classes), jnp.float32)
        value, gradient = _loss(parameters, inputs, targets, regularization)
        return float(value), np.asarray(gradient, np.float64).ravel()

    found = optimize.minimize(
        objective,
        np.zeros((width + 1) * classes),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": 1e-9, "gtol": 1e-6},
    )
    matrix = found.x.reshape(width + 1, classes).astype(np.float32)
    return matrix[:-1], matrix[-1]


@jax.jit
@jax.value_and_grad
def _loss(
    parameters: jax.Array, features: jax.Array, labels: jax.Array, regularization: jax.Array
) -> jax.Array:
    """The objective of `fit`, with its gradient."""
    weights, bias = parameters[:-1], parameters[-1]
    logits = jnp.matmul(features, weights, precision=jax.lax.Precision.HIGHEST) + bias
    own = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    entropy = jnp.mean(jax.nn.logsumexp(logits, axis=1) - own)
    return entropy + 0.5 * regularization * jnp.sum(jnp.square(weights))
