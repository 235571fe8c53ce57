"""Compares the names and shapes of a checkpoint's arrays with those of a model."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.train.tree import Tree


def read_shapes(source: epath.Path) -> Tree:
    """Returns an item of a checkpoint with shapes and dtypes in place of arrays.

    Raises:
      UserError: it is damaged.
    """
    with reading(source), ocp.StandardCheckpointer() as checkpointer:
        if (found := checkpointer.metadata(source).item_metadata) is None:
            raise ValueError("the names and shapes of its arrays cannot be read")
        return found.tree


@contextlib.contextmanager
def reading(source: epath.Path) -> Iterator[None]:
    """Reports what libraries raise for a checkpoint as damage to it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # Libraries raise errors of any type.
        problem = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"{source} is not a checkpoint that can be read ({type(error).__name__}: "
            f"{problem:.200}): use another step, or copy it from a backup."
        ) from error


def check_arrays(source: epath.Path, tree: Any) -> None:
    """Raises an error if a checkpoint item does not match a tree; reads no arrays.

    Args:
      source: folder of the item.
      tree: arrays or shapes.

    Raises:
      UserError: the item is missing, or names the first arrays that differ.
    """
    if not source.exists():
        raise UserError(
            f"{source} is missing; the model needs {len(jax.tree.leaves(tree))} of its arrays. "
            "Copy it from a backup, or use a new --workdir."
        )
    if differences := describe_differences(tree, read_shapes(source)):
        raise UserError(
            f"{source} does not fit the model; {differences}\n"
            "Use the config that the checkpoint was made with, or a new --workdir, where "
            "--config.init_from.run takes the weights of this run."
        )


def describe_differences(model: Any, checkpoint: Any) -> str:
    """Returns the first differences between the names and shapes of two trees; "" for none."""
    expected, found = _shapes(model), _shapes(checkpoint)
    wrong = [
        f"{path}: model {expected.get(path, 'none')}, checkpoint {found.get(path, 'none')}"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]
    if not wrong:
        return ""
    return f"{len(wrong)} arrays differ, such as\n  " + "\n  ".join(wrong[:5])


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    # Orbax writes optax's named tuples as dicts, so paths are compared by plain names.
    return {path: tuple(leaf.shape) for path, leaf in leaves_by_path(tree).items()}
