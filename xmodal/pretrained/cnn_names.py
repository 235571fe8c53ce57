"""The names that frameworks give to the arrays of image encoders."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published

# TensorFlow's, torch's and TF-slim's names of the arrays of a convolution and of the batch
# normalization after it, by role. The roles of the latter start with `norm_`.
TENSORFLOW = {
    "kernel": "kernel",
    "bias": "bias",
    "norm_scale": "gamma",
    "norm_bias": "beta",
    "norm_mean": "moving_mean",
    "norm_var": "moving_variance",
}
TORCH = {
    "kernel": "weight",
    "bias": "bias",
    "norm_scale": "weight",
    "norm_bias": "bias",
    "norm_mean": "running_mean",
    "norm_var": "running_var",
}
SLIM = {"kernel": "weights"} | {
    role: f"BatchNorm/{name}" for role, name in TENSORFLOW.items() if role.startswith("norm_")
}
# Keras 3 numbers the variables of a layer in the order of their creation.
_ORDER = {"kernel": 0, "bias": 1, "norm_scale": 0, "norm_bias": 1, "norm_mean": 2, "norm_var": 3}

Rule = Callable[[str, str], Taken]
"""From one of our layers (`stage1_unit2/reduce`) and a role to the array of the source."""


def image_tower(
    encoder: Mapping[str, Any], rule: Rule, normalization: str, size: int, unused: tuple[str, ...]
) -> Published:
    """Returns an image encoder without a head.

    Args:
      encoder: `name` and keywords, as in `config.model.image.encoder`.
      rule: our layer and role -> the array of the source.
      normalization: normalization of the pixels.
      size: side of the images, in pixels, that the weights were trained on.
      unused: see `Published`.
    """
    description = Description(encoder, None, {"normalization": normalization, "size": size})
    layers = {"image": {"encoder": by_role(rule)}}
    return Published({"image": description}, layers, unused=unused)


def by_role(rule: Rule) -> LayerRule:
    """Returns the rule for an encoder; `stem_norm/scale` has the role `norm_scale` of `stem`."""

    def by_leaf(path: str) -> Taken:
        layer, _, leaf = path.rpartition("/")
        if leaf.startswith("depthwise"):  # A depthwise kernel is an array of its block.
            return rule(f"{layer}/depthwise", "bias" if leaf.endswith("_bias") else "kernel")
        if layer.endswith("_norm"):
            return rule(layer.removesuffix("_norm"), f"norm_{leaf}")
        return rule(layer, leaf)

    return by_leaf


def torch_array(layer: str, role: str) -> Taken:
    """Returns the array of a convolution or of a norm in a state dict of torch."""
    name = f"{layer}.{TORCH[role]}"
    if role == "kernel":
        return Taken(name, lambda kernel: kernel.transpose(2, 3, 1, 0), "OIHW to HWIO")
    return Taken(name)


def find_scope(arrays: Arrays, name: str) -> str:
    """Returns the prefix of `name` in the source, as `module/`; "" if the source has no such name.

    Exported modules put a scope around the names used in training.
    """
    found = [key.removesuffix(name) for key in arrays if f"/{key}".endswith(f"/{name}")]
    return min(found, key=len, default="")


def number_layers(names: Iterable[str], kind: str) -> list[str]:
    """Returns the layers `scope/kind`, `scope/kind_1`, ... of the names, in this order.

    Frameworks number unnamed layers in the order of their creation, starting from the number that
    the process had reached.
    """
    pattern = re.compile(rf"(?P<layer>(.*/)?({kind})(_(?P<number>\d+))?)/[^/]+")
    matches = [match for match in map(pattern.fullmatch, names) if match]
    numbers = {match["layer"]: int(match["number"] or 0) for match in matches}
    return sorted(numbers, key=numbers.__getitem__)


class KerasNames:
    """Finds `LAYER/kernel` (released files) and `LAYER/0` (Keras 3), see `weight_files`."""

    def __init__(self, arrays: Arrays) -> None:
        self._names: dict[str, dict[str, str]] = {}
        for name in arrays:
            layer, _, variable = name.rpartition("/")
            variable = variable.replace("depthwise_kernel", "kernel")
            self._names.setdefault(layer, {})[variable] = name

    def find(self, layer: str, role: str) -> Taken:
        """Returns the array of a layer with a role of `TENSORFLOW`."""
        variables = self._names.get(layer, {})
        by_name = TENSORFLOW[role]
        # A batch normalization without scale starts with its offset.
        number = _ORDER[role] - (role.startswith("norm_") and "3" not in variables)
        return Taken(variables.get(by_name) or variables.get(str(number)) or f"{layer}/{by_name}")
