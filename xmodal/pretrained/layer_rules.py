"""Rules for the layers of vision and text transformers, and CLIP's ResNets, of any publisher.

See `torch_models` for those of other models; a rule names the array of the source that one of ours
is made of.
"""

import math
import re
from collections.abc import Callable, Mapping

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import torch_models
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.renaming import TORCH, split_name
from xmodal.pretrained.torch_models import Arrays, LayerRule

ATTENTION = ("query", "key", "value")
"""Parts of an attention layer that torch keeps in one matrix, in order."""


def count_layers(arrays: Arrays, name: str) -> int:
    """Returns the number of layers 0, 1, ... of which a source has the array; {} in its name."""
    number = 0
    while name.format(number) in arrays:
        number += 1
    return number


def grid_side(tokens: int, kind: str) -> int:
    """Returns the rows of a square grid of tokens.

    Raises:
      UserError: the tokens, which `kind` names in the plural, are not a square.
    """
    side = math.isqrt(max(tokens, 0))
    if not tokens or side**2 != tokens:
        raise UserError(f"it has {tokens} {kind}, which are not a square.")
    return side


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
            kind = torch_models.norm if part.endswith("_norm") else torch_models.linear
            return kind(names[part])(array)
        place = parts.index(part)
        how = f"part {place + 1} of {len(parts)}"
        if array == "bias":
            return Taken(f"{fused}bias", lambda bias: np.split(bias, len(parts))[place], how)
        return Taken(
            f"{fused}weight", lambda whole: np.split(whole, len(parts))[place].T,
            f"{how}, transposed",
        )  # fmt: skip

    return rule


def flat(name: str) -> LayerRule:
    """The rule for an array with leading axes of one."""
    return lambda leaf: Taken(name, lambda array: array.reshape(_without_ones(array)), "flattened")


def _without_ones(array: np.ndarray) -> tuple[int, ...]:
    leading = next((axis for axis, size in enumerate(array.shape) if size != 1), 0)
    return array.shape[leading:]


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

    def heads_joined(part: str, array: str) -> Callable[[np.ndarray], np.ndarray]:
        if part == "attention_output":
            return lambda kernel: kernel.reshape(*kernel.shape[:lead], -1, kernel.shape[-1])
        kept = lead + (array == "kernel")
        return lambda split: split.reshape(*split.shape[:kept], -1)

    def rule(leaf: str) -> Taken:
        part, array = leaf.split("/")
        name = f"{layer}{names[part]}/{array}"
        if part in ATTENTION or (part == "attention_output" and array == "kernel"):
            return Taken(name, heads_joined(part, array), "heads joined")
        return Taken(name)

    return rule


def modified_resnet() -> LayerRule:
    """The rule for openai/CLIP's ResNets, without their attention pooling."""

    def rule(leaf: str) -> Taken:
        layer, role = split_name(f"params/encoder/{leaf}")
        unit, _, conv = layer.rpartition("/")
        if not unit:
            place, number = "", layer.removeprefix("stem")
        else:
            stage, index = re.fullmatch(r"stage(\d+)_unit(\d+)", unit).groups()  # type: ignore[union-attr]
            place = f"layer{stage}.{int(index) - 1}."
            number = {"reduce": "1", "spatial": "2", "expand": "3", "shortcut": ""}[conv]
        is_norm = role.startswith("norm_")
        kind = f"{'bn' if is_norm else 'conv'}{number}" if number else f"downsample.{int(is_norm)}"
        if is_norm:
            return Taken(f"{place}{kind}.{TORCH[role]}")
        return torch_models.convolution_2d(f"{place}{kind}")(role)

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
