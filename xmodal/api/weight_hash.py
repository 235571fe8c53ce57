"""The hash of a model, the same for a run and for the bundle that was exported from it."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from xmodal.core.tree_paths import leaves_by_path


def name_leaves(trees: Iterable[Any]) -> dict[str, jax.Array]:
    """Returns the arrays of nested dicts by path; names in a bundle begin with `params/`."""
    return {
        path.removeprefix("params/"): leaf
        for tree in trees
        for path, leaf in leaves_by_path(tree).items()
    }


def hash_model(facts: tuple[Any, ...], weights: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the SHA-256 of facts, as their `repr`, and of arrays by part and path."""
    digest = hashlib.sha256(repr(facts).encode())
    for part in sorted(weights):
        for name, leaf in sorted(weights[part].items()):
            array = np.asarray(leaf)
            digest.update(f"{part} {name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
