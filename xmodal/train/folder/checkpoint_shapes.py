"""Compares the names and shapes of a checkpoint's arrays with those of a model."""

from typing import Any

import orbax.checkpoint as ocp
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.train.tree import Tree


def read_shapes(source: epath.Path) -> Tree:
    """Returns an item of a checkpoint with shapes and dtypes in place of arrays."""
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.metadata(source).item_metadata.tree


def check_arrays(source: epath.Path, tree: Any) -> None:
    """Raises an error if a checkpoint item does not match a tree of arrays or shapes."""
    found = read_shapes(source) if source.exists() else {}
    if differences := describe_differences(tree, found):
        raise UserError(
            f"{source} does not fit the model; {differences}\n"
            "Use the config that the checkpoint was made with, or a new --workdir, where "
            "--config.init_from.run takes the weights of this run."
        )


def describe_differences(model: Any, checkpoint: Any) -> str:
    """Returns the first differences between the names and shapes of two trees; "" for none."""
    # Orbax writes optax's named tuples as dicts, so paths are compared by plain names.
    expected, found = (
        {path: tuple(leaf.shape) for path, leaf in leaves_by_path(tree).items()}
        for tree in (model, checkpoint)
    )
    wrong = [
        f"{path}: model {expected.get(path, 'none')}, checkpoint {found.get(path, 'none')}"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]
    if not wrong:
        return ""
    return f"{len(wrong)} arrays differ, such as\n  " + "\n  ".join(wrong[:5])
