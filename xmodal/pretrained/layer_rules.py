"""Renaming tables: the arrays of a published model that ours are made of, and the way back.

A table maps the path of one of our arrays or layers (`encoder/norm`) to its name in the source. The
arrays of a layer (`kernel`, `scale`) have the same names in all models of a framework. Tables of
layouts that `xmodal export` writes say how to undo each change of an array.
"""

import collections
import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from xmodal.core.errors import UserError

Arrays = Mapping[str, np.ndarray]
Change = Callable[[np.ndarray], np.ndarray]

ATTENTION = ("query", "key", "value")
"""Parts of an attention layer that torch keeps in one matrix, in order."""
_HEAD_WIDTH = 64  # In all published BERTs, and most other transformers.

# Our name of an array of a layer -> its names in torch, where old BERTs have TensorFlow's; and in
# TensorFlow, TF-slim and flax.
_ENDS = {
    "kernel": (".weight", "/kernel", "/weights"),
    "bias": (".bias", ".beta", "/bias", "/beta"),
    "scale": (".weight", ".gamma", "/gamma", "/scale"),
    "mean": (".running_mean", "/moving_mean"),
    "var": (".running_var", "/moving_variance"),
    "variance": (".running_var",),
}
# An array of our recurrent layers: its layer, direction, input or state, gate, and kind.
_GATE = re.compile(r"layer(\d+)_?(\w*)/([ih])(\w)/(kernel|bias)")
_GATES = ("rzn", "ifgo")  # In the order in which `torch.nn.GRU` and `LSTM` stack them.


def _same(array: np.ndarray) -> np.ndarray:
    return array


class Taken(NamedTuple):
    """An array or a layer of the source.

    Attributes:
      name: its name. `{}` in it stands for 0, 1, ...: the arrays of all layers of a stack, which
        become one array.
      change: from the layout of each to ours.
      inverse: the way back, which also undoes the reshaping of `take_all`; of an array with several
        of ours one below the other, to the rows of ours.
      place: place of ours among those.
    """

    name: str
    change: Change = _same
    inverse: Change = _same
    place: int = 0

    def __str__(self) -> str:
        return self.name


Table = Mapping[str, str | Taken]
"""Path of one of our arrays or layers -> its name in the source."""


def find(arrays: Arrays, table: Table, path: str) -> Taken:
    """Returns the array of the source for one of ours, by the longest path in the table."""
    fits = [layer for layer in table if f"{path}/".startswith(f"{layer}/")]
    if not fits:
        raise UserError(f"{path} has no counterpart in the published model.")
    layer = max(fits, key=len)
    rule, leaf = table[layer], path.removeprefix(layer).removeprefix("/")
    taken = Taken(rule) if isinstance(rule, str) else rule
    if not leaf:
        return taken
    if gate := _GATE.fullmatch(leaf):
        return _gate(taken.name, *gate.groups())
    start = taken.name.endswith("_")  # `attn.in_proj_` and `weight`.
    names = [taken.name + end[start:] for end in _ENDS.get(leaf, ())]
    name = next((name for name in names if name.format(0) in arrays), names[0])
    if leaf == "kernel" and name.endswith("weight"):
        return taken._replace(
            name=name,
            change=lambda array: _from_torch(taken.change(array)),
            inverse=lambda kernel: taken.inverse(_to_torch(kernel)),
        )
    return taken._replace(name=name)


def give_all(arrays: Arrays, table: Table) -> dict[str, np.ndarray]:
    """Returns the arrays of the source in torch's layout, the inverse of `take_all`.

    Args:
      arrays: our arrays by the paths of the table.
      table: the names of the source.
    """
    found: dict[str, dict[int, np.ndarray]] = collections.defaultdict(dict)
    for path, array in arrays.items():
        taken = find({}, table, path)
        for number, layer in enumerate(array if "{}" in taken.name else [array]):
            found[taken.name.format(number)][taken.place] = taken.inverse(layer)
    lists = {name: [rows[place] for place in sorted(rows)] for name, rows in found.items()}
    joined = {name: np.concatenate(x) if len(x) > 1 else x[0] for name, x in lists.items()}
    return {name: np.asarray(array, order="C") for name, array in joined.items()}


def _from_torch(kernel: np.ndarray) -> np.ndarray:
    """Outputs, inputs, positions -> positions, inputs, outputs."""
    return kernel.transpose(*range(2, kernel.ndim), 1, 0)


def _to_torch(kernel: np.ndarray) -> np.ndarray:
    return kernel.transpose(-1, -2, *range(kernel.ndim - 2))


def _gate(module: str, number: str, direction: str, reads: str, gate: str, kind: str) -> Taken:
    end = f"_l{int(number) - 1}" + ("_reverse" if direction == "backward" else "")
    gates = next(gates for gates in _GATES if gate in gates)
    place = gates.index(gate)
    name = f"{module}.{'weight' if kind == 'kernel' else kind}_{reads}h{end}"
    return Taken(name, lambda stacked: np.split(stacked, len(gates))[place].T)


def nest(ours: str, theirs: str, table: Table) -> dict[str, str | Taken]:
    """Returns a table whose paths begin with `ours`, and its names with `theirs`."""
    return {
        ours + path: theirs + rule
        if isinstance(rule, str)
        else rule._replace(name=theirs + rule.name)
        for path, rule in table.items()
    }


def with_axes(name: str, axes: int = 1) -> Taken:
    """Returns an array that has more axes of one in front of ours."""
    return Taken(name, inverse=lambda array: array.reshape(*[1] * axes, *array.shape))


def split(name: str, parts: tuple[str, ...] = ATTENTION) -> dict[str, Taken]:
    """Returns the table of layers that torch keeps in one, in this order."""

    def take(place: int) -> Change:
        return lambda array: np.split(array, len(parts))[place]

    return {part: Taken(name, take(place), place=place) for place, part in enumerate(parts)}


def patch_sizes(arrays: Arrays, table: Table, start: str) -> tuple[int, int]:
    """Returns the sides of a patch and of a picture of a ViT with a class token.

    Args:
      arrays: arrays of the source.
      table: its table.
      start: what precedes `patches` and `position_embeddings` in the table.
    """
    *_, patch = arrays[f"{table[f'{start}patches']}.weight"].shape
    _, tokens, _ = arrays[str(table[f"{start}position_embeddings"])].shape
    return patch, math.isqrt(tokens - 1) * patch


def find_prefix(arrays: Arrays, name: str) -> str:
    """Returns the prefix of the name of an array in a source, such as `model.module.`."""
    found = [key.removesuffix(name) for key in arrays if f".{key}".endswith(f".{name}")]
    if len(found) != 1:
        shown = ", ".join(sorted(arrays)[:4])
        raise UserError(f"it has {len(found)} arrays {name!r}, but needs one; it has {shown}, ...")
    return found[0]


def count_layers(arrays: Arrays, name: str) -> int:
    """Returns the number of layers 0, 1, ... of which a source has the array; {} in its name."""
    return next(number for number in itertools.count() if name.format(number) not in arrays)


def transformer_sizes(arrays: Arrays, table: Table, path: str) -> dict[str, int]:
    """Returns the sizes of a stack of layers, with the usual number of heads.

    Args:
      arrays: arrays of the source.
      table: its table.
      path: path of the layers in the table, such as `encoder/layers/`.
    """
    taken = find(arrays, table, f"{path}mlp_hidden/kernel")
    width, mlp_dim = taken.change(arrays[taken.name.format(0)]).shape
    depth = count_layers(arrays, taken.name)
    heads = max(1, width // _HEAD_WIDTH)
    return {"width": width, "depth": depth, "heads": heads, "mlp_dim": mlp_dim}


TIMM_LAYER: Table = {
    "attention_norm": "norm1",
    **split("attn.qkv"),
    "attention_output": "attn.proj",
    "mlp_norm": "norm2",
    "mlp_hidden": "mlp.fc1",
    "mlp_output": "mlp.fc2",
}
"""A layer of timm's ViT."""
