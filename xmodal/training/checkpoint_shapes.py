"""Names and shapes of the arrays in a checkpoint, compared with those of a model."""

from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from xmodal.config import UserError


def check_arrays(checkpointer: ocp.StandardCheckpointer, source: epath.Path, tree: Any) -> None:
    """Refuses an item of a checkpoint that a tree cannot be filled from; reads no array.

    Args:
      checkpointer: reads the names and shapes.
      source: folder of the item.
      tree: arrays or shapes.

    Raises:
      UserError: the item is missing, or names the first arrays that differ.
    """
    if not source.exists():
        raise UserError(
            f"{source} is missing; the model needs {len(jax.tree.leaves(tree))} arrays of it. Copy "
            "it from a backup, or use a new --workdir."
        )
    found = _shapes(checkpointer.metadata(source).item_metadata.tree)
    expected = _shapes(tree)
    wrong = [
        f"{path}: model {expected.get(path, 'none')}, checkpoint {found.get(path, 'none')}"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]
    if wrong:
        raise UserError(
            f"{source} does not fit the model; {len(wrong)} arrays differ, among them\n  "
            + "\n  ".join(wrong[:5])
            + "\nUse the config the checkpoint was made with; or a new --workdir, where "
            "--config.init_from.run takes the weights of this run."
        )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    # Orbax writes the named tuples of optax as dicts, so paths are compared by their plain names.
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): tuple(leaf.shape)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
