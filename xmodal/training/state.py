"""The training state: plain nested dicts, frozen parameters apart from trained ones."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.models import DualEncoder
from xmodal.training import rngs

Tree = dict[str, Any]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything a run needs to go on.

    Attributes:
      step: int32 scalar, updates done so far.
      params: trained parameters, nested by tower.
      frozen: parameters that never change; no gradient and no optimiser state exists for them.
      model_state: running statistics of the towers.
      opt_state: the optax state of `params`.
    """

    step: jax.Array
    params: Tree
    frozen: Tree
    model_state: Tree
    opt_state: Any

    def all_params(self) -> Tree:
        """Trained and frozen parameters as the one tree the model was built with."""
        return merge(self.params, self.frozen)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dict -> {`text/bert/embeddings/word`: leaf}."""
    flat = {}
    for key, value in tree.items():
        path = f"{prefix}/{key}" if prefix else key
        flat.update(flatten(value, path) if isinstance(value, Mapping) else {path: value})
    return flat


def unflatten(flat: Mapping[str, Any]) -> Tree:
    """The inverse of `flatten`."""
    tree: Tree = {}
    for path, leaf in flat.items():
        *parents, last = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf
    return tree


def partition(params: Tree, patterns: Sequence[str]) -> tuple[Tree, Tree]:
    """Splits parameters into (trained, frozen) by path.

    Args:
      params: nested dict of arrays or shapes.
      patterns: regular expressions; a path one of them matches from its beginning is frozen.

    Raises:
      UserError: a pattern that matches nothing (a typo would silently train what should be
        frozen), or one set of patterns that leaves nothing to train.
    """
    flat = flatten(params)
    for pattern in patterns:
        if not any(re.match(pattern, path) for path in flat):
            raise UserError(
                f"config.freeze pattern {pattern!r} matches no parameter; "
                f"the top levels are {_top_levels(flat)}."
            )
    is_frozen = {path: any(re.match(p, path) for p in patterns) for path in flat}
    if all(is_frozen.values()):
        raise UserError(f"config.freeze={list(patterns)} freezes every parameter.")
    return split(params, is_frozen.__getitem__)


def split(params: Tree, is_frozen: Callable[[str], bool]) -> tuple[Tree, Tree]:
    """(trained, frozen) by a function of the path; every tower stays in the first."""
    flat = flatten(params)
    # A tower without parameters is kept too: the model looks for it.
    trained: Tree = {name: {} for name in params}
    return (
        trained | unflatten({path: leaf for path, leaf in flat.items() if not is_frozen(path)}),
        unflatten({path: leaf for path, leaf in flat.items() if is_frozen(path)}),
    )


def _top_levels(flat: Mapping[str, Any]) -> list[str]:
    return sorted({"/".join(path.split("/")[:2]) for path in flat})


def merge(trained: Tree, frozen: Tree) -> Tree:
    """The inverse of `partition`."""
    towers: Tree = {name: {} for name in trained}
    return towers | unflatten(flatten(trained) | flatten(frozen))


def make_init(
    model: DualEncoder,
    optimizer: optax.GradientTransformation,
    example_inputs: Mapping[str, Any],
    *,
    seed: int,
    freeze: Sequence[str],
) -> Callable[[], TrainState]:
    """Builds the pure function that makes the state of step 0.

    Args:
      model: the dual encoder.
      optimizer: sees the trained parameters only.
      example_inputs: tower name -> inputs of the shapes the model will be given.
      seed: of the parameters.
      freeze: see `partition`.
    """

    def init() -> TrainState:
        params, model_state = model.init(rngs.stream_key(seed, "params"), example_inputs)
        trained, frozen = partition(params, freeze)
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=trained,
            frozen=frozen,
            model_state=model_state,
            opt_state=optimizer.init(trained),
        )

    return init


def abstract_state(
    init: Callable[[], TrainState], mesh: Mesh, rules: Sequence[tuple[str, str]]
) -> TrainState:
    """Shapes and homes of a state's arrays; nothing is computed. See `mesh_lib.tree_shardings`."""
    shapes = jax.eval_shape(init)
    homes = mesh_lib.tree_shardings(shapes, rules, mesh)
    return jax.tree.map(
        lambda leaf, home: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=home),
        shapes,
        homes,
    )


def create_state(
    init: Callable[[], TrainState], mesh: Mesh, rules: Sequence[tuple[str, str]]
) -> TrainState:
    """Initialises a state where it will live; no device ever holds more than its share."""
    homes = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(init, mesh, rules))
    return jax.jit(init, out_shardings=homes)()
