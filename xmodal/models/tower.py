"""One side of a dual encoder: a linen module behind two plain functions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.models.embedding import Embedding

Tree = dict[str, Any]
"""A nested plain dict of arrays."""

DTYPES: Mapping[str, DTypeLike] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
"""Compute dtypes by name; parameters are float32 whatever is chosen."""


@dataclasses.dataclass(frozen=True)
class Devices:
    """What a tower may need to know of the machine it will run on.

    Attributes:
      count: devices that the batch is split over.
      platform: `cpu`, `gpu` or `tpu`; the implementation that is fast there may differ.
    """

    count: int = 1
    platform: str = "cpu"


ONE_CPU = Devices()


@dataclasses.dataclass(frozen=True)
class Tower:
    """`init` and `apply` of a module that maps `(inputs, train)` to an `Embedding`.

    Parameters and state are nested plain dicts of float32 arrays. The state holds what a training
    pass changes without a gradient (`batch_stats`) and is empty for towers that have none.
    """

    module: nn.Module

    def init(self, key: jax.Array, inputs: Any) -> tuple[Tree, Tree]:
        """Fresh `(params, model_state)`; of `inputs` only shapes and dtypes matter."""
        variables = self.module.init(key, inputs, train=False)
        return variables.pop("params", {}), variables

    def apply(
        self,
        params: Tree,
        model_state: Tree,
        inputs: Any,
        *,
        train: bool = False,
        key: jax.Array | None = None,
    ) -> tuple[Embedding, Tree]:
        """The embedding of `inputs` and the new model state (the old one unless `train`).

        Args:
          params: parameters, as from `init`.
          model_state: state, as from `init`.
          inputs: what the tower's module documents.
          train: use batch statistics and update the running ones, drop at random.
          key: seeds what is dropped; needed when `train`.
        """
        variables = {"params": params, **model_state}
        if not train:
            return self.module.apply(variables, inputs, train=False), model_state
        if key is None:
            raise ValueError("a tower with train=True drops at random: pass key=jax.random.key(..)")
        return self.module.apply(
            variables, inputs, train=True, rngs={"dropout": key}, mutable=list(model_state)
        )

    def features(self, params: Tree, model_state: Tree, inputs: Any) -> Any:
        """What the tower's lower part gives for `inputs`; see the module's `features`."""
        return self.module.apply({"params": params, **model_state}, inputs, method="features")
