"""The arrays of a run: nested dicts by path, trained apart from frozen parameters."""

import dataclasses
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path, path_of, unflatten

Tree = dict[str, Any]
"""A nested plain dict of arrays."""


def matches(patterns: Iterable[str], path: str) -> bool:
    """Returns whether one of the regular expressions matches a path from its start.

    All patterns that a config has for parameters are matched this way: `freeze`, `l2`, those of
    `init_from` and of `optimizer`. "text/" is the text tower alone, ".*kernel" all kernels. Only
    `sharding` is searched: paths of a state begin with `params/` or with a part of the optimizer.
    """
    return any(re.match(pattern, path) for pattern in patterns)


def check_patterns(where: str, patterns: Iterable[str], paths: Collection[str]) -> None:
    """Raises an error if a pattern matches no path.

    Args:
      where: place of the patterns in the config, for the error.
      patterns: see `matches`.
      paths: paths of parameters.
    """
    for pattern in patterns:
        if not any(matches([pattern], path) for path in paths):
            raise UserError(
                f"{where} pattern {pattern!r} matches no parameter; the top levels are "
                f"{top_levels(paths)}."
            )


def describe_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Returns the first differences between the names and shapes of arrays; "" for none.

    Args:
      ours: arrays or shapes that are needed, by path.
      theirs: those that were found.
    """
    expected, found = (
        {path: tuple(leaf.shape) for path, leaf in leaves.items()} for leaves in (ours, theirs)
    )
    wrong = [
        f"{path}: {expected.get(path, 'missing')} here, {found.get(path, 'missing')} there"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]
    return f"{len(wrong)} arrays differ, such as\n  " + "\n  ".join(wrong[:5]) if wrong else ""


def top_levels(paths: Iterable[str]) -> list[str]:
    """Returns the first two levels of paths, such as `text/encoder`, sorted."""
    return sorted({"/".join(path.split("/")[:2]) for path in paths})


def part_of(path: str) -> str:
    """Returns the path of an array of the model state without its collection: it follows parts."""
    return re.sub("/(batch_stats|constants)/", "/", path, count=1)


def partition(params: Tree, patterns: Sequence[str]) -> tuple[Tree, Tree]:
    """Splits parameters into (trained, frozen) by path.

    Args:
      params: nested dict of arrays or shapes.
      patterns: regular expressions; a path that one of them matches from its start is frozen.
    """
    flat = leaves_by_path(params)
    check_patterns("config.freeze", patterns, flat)
    is_frozen = {path: matches(patterns, path) for path in flat}
    if all(is_frozen.values()):
        raise UserError(f"config.freeze={list(patterns)} freezes every parameter.")
    return split(params, is_frozen.__getitem__)


def split(params: Tree, is_frozen: Callable[[str], bool]) -> tuple[Tree, Tree]:
    """Returns (trained, frozen) by a function of the path; the first keeps every top level."""
    flat = leaves_by_path(params)
    # A tower without parameters is kept too, because the model expects it.
    trained: Tree = {name: {} for name in params}
    return (
        trained | unflatten({path: leaf for path, leaf in flat.items() if not is_frozen(path)}),
        unflatten({path: leaf for path, leaf in flat.items() if is_frozen(path)}),
    )


def merge(trained: Tree, frozen: Tree) -> Tree:
    """Returns the inverse of `partition`."""
    both = dict(trained)
    for name, value in frozen.items():
        both[name] = merge(both.get(name, {}), value) if isinstance(value, dict) else value
    return both


def frozen_parts(
    trained: Collection[str], frozen: Collection[str], modality: str
) -> frozenset[str]:
    """Returns the parts of a tower that run as in evaluation while the rest trains.

    A part without parameters is frozen with its whole tower.

    Args:
      trained: paths of the trained parameters.
      frozen: paths of the frozen parameters.
      modality: "image" or "text".
    """
    own, fixed = (
        {path.split("/")[1] for path in paths if path.startswith(f"{modality}/")}
        for paths in (trained, frozen)
    )
    whole = {"encoder", "head", "projection"} if fixed and not own else set()
    return frozenset(whole | (fixed - own))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """All arrays that a run needs to continue.

    Attributes:
      step: int32 scalar, updates done so far.
      params: trained parameters: `image`, `text`, `similarity` and `tasks/NAME`.
      frozen: parameters that never change; no gradient and no optimizer state exists for them.
      model_state: running statistics of the towers and tasks, and momentum copies of the towers.
      opt_state: the optimizer state of `params`.
    """

    step: jax.Array
    params: Tree
    frozen: Tree
    model_state: Tree
    opt_state: Any

    def all_params(self) -> Tree:
        """Returns trained and frozen parameters as the single tree that the model expects."""
        return merge(self.params, self.frozen)

    def flat_params(self) -> dict[str, Any]:
        """Returns trained and frozen parameters by path."""
        return leaves_by_path(self.params) | leaves_by_path(self.frozen)


def replace_arrays(
    state: TrainState,
    arrays: Mapping[str, np.ndarray],
    rows: Mapping[str, Mapping[int, np.ndarray]] = types.MappingProxyType({}),
) -> TrainState:
    """Returns a state with other parameters and statistics, by path.

    They take the dtype and sharding of the old ones. Paths that the state lacks are ignored.

    Args:
      state: the state.
      arrays: whole arrays.
      rows: number of a row -> its values, for tables of which only some rows are replaced.
    """

    def replace(keys: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        if (own := rows.get(path_of(keys))) is not None:
            at, values = np.array([*own]), np.array([*own.values()])
            return jax.jit(lambda x: x.at[at].set(values), out_shardings=leaf.sharding)(leaf)
        new = arrays.get(path_of(keys))
        return leaf if new is None else mesh_lib.put(new.astype(leaf.dtype), leaf.sharding)

    trees = {
        name: jax.tree_util.tree_map_with_path(replace, getattr(state, name))
        for name in ("params", "frozen", "model_state")
    }
    return dataclasses.replace(state, **trees)


def create_state(
    init: Callable[..., TrainState], shapes: TrainState, *arguments: np.ndarray
) -> TrainState:
    """Returns the state of `init`, sharded like `shapes`; no device holds more than its shard."""
    shardings = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    # On a CPU, it takes longer to optimize a program that runs once than to run it.
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    return jax.jit(init, out_shardings=shardings, compiler_options=options)(*arguments)


def largest_dimension_sharded(mesh: Mesh, shape: Sequence[int]) -> NamedSharding:
    """Splits the largest dimension that divides over the mesh's last axis; else replicates.

    The rule of fully sharded data parallelism. Tensors under 2**18 elements stay replicated:
    gathering them costs more than they save.
    """
    last = mesh.axis_names[-1]
    divisible = [axis for axis, size in enumerate(shape) if size % mesh.shape[last] == 0]
    if not divisible or np.prod(shape) < 2**18:
        return mesh_lib.replicated(mesh)
    axis = max(divisible, key=lambda a: shape[a])
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, last))


RULES = {
    "replicated": lambda mesh, shape: mesh_lib.replicated(mesh),
    "fsdp": largest_dimension_sharded,
}


def tree_shardings(tree: Any, rules: Sequence[tuple[str, str]], mesh: Mesh) -> Any:
    """Returns the sharding of every array of a state, as a tree of `NamedSharding`.

    Args:
      tree: a pytree of arrays or shapes.
      rules: (regular expression searched in the path `params/text/encoder/...`, key of `RULES`)
        pairs; the first match wins, and an array without one is replicated.
      mesh: the device mesh.
    """

    def choose(keys: tuple[Any, ...], leaf: Any) -> NamedSharding:
        found = (rule for pattern, rule in rules if re.search(pattern, path_of(keys)))
        return RULES[next(found, "replicated")](mesh, leaf.shape)

    return jax.tree_util.tree_map_with_path(choose, tree)
