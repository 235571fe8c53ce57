"""Rules for the layers of published models, of any publisher.

A rule names the array of the source that one of ours is made of.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained.conversion_report import Taken

Arrays = Mapping[str, np.ndarray]
LayerRule = Callable[[str], Taken]
"""From the name of an array within its layer (`kernel`, `stem_norm/scale`) to the source."""

ATTENTION = ("query", "key", "value")
"""Parts of an attention layer that torch keeps in one matrix, in order."""
HEAD_WIDTH = 64
"""Width of a head in all published BERTs, and most other transformers."""

_NORM = {
    "scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var",
    "variance": "running_var",
}  # fmt: skip


def find_prefix(arrays: Arrays, name: str) -> str:
    """Returns the prefix of the name of an array in a source, such as `model.module.`.

    Raises:
      UserError: there is no array with this name, or several.
    """
    found = [key.removesuffix(name) for key in arrays if f".{key}".endswith(f".{name}")]
    if len(found) != 1:
        shown = ", ".join(sorted(arrays)[:4])
        raise UserError(f"it has {len(found)} arrays {name!r}, but needs one; it has {shown}, ...")
    return found[0]


def array_shape(arrays: Arrays, name: str) -> tuple[int, ...]:
    """Returns the shape of an array of a source.

    Raises:
      UserError: the source has no such array.
    """
    if name not in arrays:
        raise UserError(f"it has no array {name!r}; it has {', '.join(sorted(arrays)[:4])}, ...")
    return np.shape(arrays[name])


def find(rules: Mapping[str, LayerRule], path: str) -> Taken:
    """Returns the array of the source for one of ours, by the rule of the longest path.

    Raises:
      UserError: there is no such rule.
    """
    fits = [layer for layer in rules if f"{path}/".startswith(f"{layer}/")]
    if not fits:
        raise UserError(f"{path} has no counterpart in the published model.")
    layer = max(fits, key=len)
    return rules[layer](path.removeprefix(layer).removeprefix("/"))


def count_layers(arrays: Arrays, name: str) -> int:
    """Returns the number of layers 0, 1, ... of which a source has the array; {} in its name."""
    number = 0
    while name.format(number) in arrays:
        number += 1
    return number


def count_heads(width: int) -> int:
    """Returns the usual number of heads of a transformer."""
    return max(1, width // HEAD_WIDTH)


def grid_side(tokens: int) -> int:
    """Returns the rows of a square grid of tokens.

    Raises:
      UserError: the tokens are not a square.
    """
    modality = math.isqrt(max(tokens, 0))
    if not tokens or modality**2 != tokens:
        raise UserError(f"it has {tokens} positions of patches, which are not a square.")
    return modality


def below(start: str, rules: Mapping[str, LayerRule]) -> dict[str, LayerRule]:
    """Rules whose names in the source begin with `start`."""

    def extend(rule: LayerRule) -> LayerRule:
        def extended(leaf: str) -> Taken:
            taken = rule(leaf)
            return taken._replace(name=f"{start}{taken.name}")

        return extended

    return {path: extend(rule) for path, rule in rules.items()}


def stack(arrays: Arrays, layer: str, rule: LayerRule, anchor: str) -> LayerRule:
    """The rule for the layers 0, 1, ..., of which each has `anchor`; {} in `layer`."""
    depth = count_layers(arrays, layer + anchor)

    def stacked(leaf: str) -> Taken:
        taken = rule(leaf)
        return taken._replace(name=tuple(f"{layer.format(i)}{taken.name}" for i in range(depth)))

    return stacked


def whole(name: str) -> LayerRule:
    """The rule for an array that is used unchanged, such as a table of word vectors."""
    return lambda leaf: Taken(name)


def changed(name: str, change: Callable[[np.ndarray], np.ndarray], how: str) -> LayerRule:
    """The rule for an array that is changed; see `Taken`."""
    return lambda leaf: Taken(name, change, how)


def with_kernel(layer: str, change: Callable[[np.ndarray], np.ndarray], how: str) -> LayerRule:
    """The rule for a layer whose kernel torch stores in another layout; see `Taken`."""

    def rule(leaf: str) -> Taken:
        if leaf == "kernel":
            return Taken(f"{layer}.weight", change, how)
        return Taken(f"{layer}.{leaf}")

    return rule


def linear(layer: str) -> LayerRule:
    """The rule for `torch.nn.Linear`."""
    return with_kernel(layer, np.transpose, "transposed")


def convolution(layer: str) -> LayerRule:
    """The rule for `torch.nn.Conv1d` over single positions, which is a linear layer."""
    return with_kernel(layer, lambda kernel: np.squeeze(kernel, 2).T, "OIL to IO")


def convolution_2d(layer: str) -> LayerRule:
    """The rule for `torch.nn.Conv2d`."""
    return with_kernel(layer, lambda kernel: kernel.transpose(2, 3, 1, 0), "OIHW to HWIO")


def norm(layer: str) -> LayerRule:
    """The rule for `torch.nn.LayerNorm` and for a single `BatchNorm`."""
    return lambda leaf: Taken(f"{layer}.{_NORM[leaf]}")


def flat(name: str) -> LayerRule:
    """The rule for an array with leading axes of one."""

    def flatten(array: np.ndarray) -> np.ndarray:
        leading = next((axis for axis, size in enumerate(array.shape) if size != 1), 0)
        return array.reshape(array.shape[leading:])

    return changed(name, flatten, "flattened")


def by_part(
    names: Mapping[str, str], fused: str = "", parts: tuple[str, ...] = ATTENTION
) -> LayerRule:
    """The rule for linear layers and norms in torch, by the name of the part.

    Args:
      names: our name of a part -> that in the source.
      fused: start of the names of the one matrix and bias of several parts; "" for none.
      parts: these parts, in order.
    """

    def rule(leaf: str) -> Taken:
        part, _, array = leaf.partition("/")
        if part in names:
            return (norm if part.endswith("_norm") else linear)(names[part])(array)
        place = parts.index(part)
        how = f"part {place + 1} of {len(parts)}, transposed"
        name = f"{fused}{'weight' if array == 'kernel' else array}"
        return Taken(name, lambda whole: np.split(whole, len(parts))[place].T, how)

    return rule


def same(layer: str) -> LayerRule:
    """The rule for a layer of flax whose arrays have our names and shapes."""
    return lambda leaf: Taken(f"{layer}/{leaf}")


def flax_layer(layer: str, names: Mapping[str, str], *, lead: int = 0) -> LayerRule:
    """The rule for a transformer layer of flax, whose heads are axes of their own.

    Args:
      layer: start of the names in the source.
      names: our name of a part -> the rest of its name.
      lead: axes of an array before those of one layer: 1 for stacked layers.
    """

    def rule(leaf: str) -> Taken:
        part, array = leaf.split("/")
        name = f"{layer}{names[part]}/{array}"
        if part in ATTENTION or (part == "attention_output" and array == "kernel"):
            return Taken(name, join_heads(part, array, lead), "heads joined")
        return Taken(name)

    return rule


def join_heads(part: str, array: str, lead: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the change of a kernel or bias whose heads are an axis of their own."""
    if part == "attention_output" and array == "kernel":
        return lambda kernel: kernel.reshape(*kernel.shape[:lead], -1, kernel.shape[-1])
    kept = lead + (array == "kernel")
    return lambda split: split.reshape(*split.shape[:kept], -1)


def gru(module: str) -> LayerRule:
    """The rule for `torch.nn.GRU`, which stacks the gates r, z, n; see `models.recurrent`."""
    return _recurrent(module, "rzn")


def lstm(module: str) -> LayerRule:
    """The rule for `torch.nn.LSTM`, which stacks the gates i, f, g, o."""
    return _recurrent(module, "ifgo")


def _recurrent(module: str, gates: str) -> LayerRule:
    def rule(leaf: str) -> Taken:
        layer, dense, kind = leaf.split("/")
        number, _, direction = layer.removeprefix("layer").partition("_")
        end = f"_l{int(number) - 1}" + ("_reverse" if direction == "backward" else "")
        name, gate = f"{'weight' if kind == 'kernel' else kind}_{dense[0]}h{end}", dense[1]
        place = gates.index(gate)
        take = lambda stacked: np.split(stacked, len(gates))[place].T  # noqa: E731
        return Taken(f"{module}.{name}", take, f"gate {gate}, transposed")

    return rule


TIMM_LAYER = by_part(
    {
        "attention_norm": "norm1",
        "attention_output": "attn.proj",
        "mlp_norm": "norm2",
        "mlp_hidden": "mlp.fc1",
        "mlp_output": "mlp.fc2",
    },
    "attn.qkv.",
)
"""A layer of timm's ViT."""
