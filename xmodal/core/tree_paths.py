"""Paths of the leaves of pytrees, such as `params/text/encoder/table`."""

from collections.abc import Mapping
from typing import Any

import jax


def path_of(keys: tuple[Any, ...]) -> str:
    """Returns the path of a leaf from its keys, as `jax.tree.map_with_path` gives them."""
    return jax.tree_util.keystr(keys, simple=True, separator="/")


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a pytree by path, in the order of `jax.tree.leaves`."""
    return {path_of(keys): leaf for keys, leaf in jax.tree.leaves_with_path(tree)}


def unflatten(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the nested dict with these leaves by path."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *parents, last = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf
    return tree
