"""The parameters of a loss, wrapped in plain functions."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from xmodal.models.basics import Mode, Tree
from xmodal.similarity.embedding import Embedding


class TaskInputs(NamedTuple):
    """What the module of a task reads.

    Attributes:
      left: embeddings of the task's left view, B items.
      right: embeddings of its right view; None for a task with one view.
      columns: batch columns that the loss reads; text columns [B, T] of the task's caption.
      reads: parameters of a tower that the task shares, by path.
    """

    left: Embedding
    right: Embedding | None
    columns: Mapping[str, jax.Array]
    reads: Mapping[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class TaskModule:
    """A module that turns the embeddings of a task's pairs into the outputs its loss reads.

    Attributes:
      module: called with `(TaskInputs, Mode)`; it may have a method `predict`.
      momentum: in training, `left` and `right` come from copies of the towers that follow them
        at this rate, see `step.follow`; None for the towers themselves.
    """

    module: nn.Module
    momentum: float | None = None

    def init(self, key: jax.Array, *inputs: Any) -> tuple[Tree, Tree]:
        """Returns fresh `(params, state)`, given a typed key and the fields of `TaskInputs`."""
        variables = dict(self.module.init(key, TaskInputs(*inputs), Mode.EVALUATE))
        return variables.pop("params", {}), variables

    def apply(
        self,
        params: Tree,
        state: Tree,
        *inputs: Any,
        train: bool = False,
        key: jax.Array | None = None,
    ) -> tuple[dict[str, jax.Array], Tree]:
        """Returns the outputs by name, B rows each, and the new state.

        Args:
          params: parameters, as from `init`.
          state: state, as from `init`.
          *inputs: the fields of `TaskInputs`.
          train: update the state, and apply dropout.
          key: seeds dropout.
        """
        given, variables = TaskInputs(*inputs), {"params": params, **state}
        if not train:
            outputs: Any = self.module.apply(variables, given, Mode.EVALUATE)
            return outputs, state
        rngs = {} if key is None else {"dropout": key}
        applied: Any = self.module.apply(
            variables, given, Mode.TRAIN, rngs=rngs, mutable=list(state)
        )
        return applied

    def predict(self, params: Tree, left: jax.Array, right: jax.Array | None) -> jax.Array:
        """Returns predictions for every pair of two blocks of items; `module` has a `predict`.

        Args:
          params: parameters, as from `init`.
          left: [L, D].
          right: [R, D].

        Returns:
          float32 [L, R, C].
        """
        predictions: Any = self.module.apply({"params": params}, left, right, method="predict")
        return predictions
