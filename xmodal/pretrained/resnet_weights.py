"""ResNet-50, 101 and 152 from keras.applications, torchvision, TF-slim and SimCLRv2."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xmodal.models.encoders import resnet
from xmodal.pretrained.conversion_report import Report, Taken
from xmodal.pretrained.keras_names import KerasNames
from xmodal.pretrained.renaming import (
    SLIM,
    TENSORFLOW,
    TORCH,
    Flat,
    convert,
    find_prefix,
    number_layers,
)

# Classifiers, projection heads, momenta and other arrays that the encoder does not have.
EXPECTED_UNEXPECTED = (
    r"(model_weights/)?(layers/)?(predictions|probs|fc1000)/",
    r"fc\.(weight|bias)$",
    r".*\blogits/(weights|biases)$",
    r".*\bmean_rgb$",
    r"(.*/)?(_projection_head|supervised_head|head_supervised|head_contrastive)/",
    r".*/(Momentum|ExponentialMovingAverage)$",
)

_CONVS = ("shortcut", "reduce", "spatial", "expand")


def convert_resnet(arrays: Mapping[str, np.ndarray], **keywords: Any) -> tuple[Flat, Report]:
    """Returns the arrays of a ResNet under our names.

    Args:
      arrays: names and arrays as published: in Keras files for the variant "keras", the state dict
        for "torchvision" and "vse_infinity", checkpoints for "slim" and (TensorFlow 1 or 2)
        "simclr".
      **keywords: keywords of the encoder; only `depth` and `variant` are used.

    Returns:
      Our arrays by name, and the report.

    Raises:
      UserError: a keyword is unknown, or an array has another shape than the encoder's.
    """
    encoder = {"name": "resnet", **keywords}
    depth = str(keywords.get("depth", 50))
    variant = keywords.get("variant", "torchvision")
    if variant in ("torchvision", "vse_infinity"):
        return convert(arrays, encoder, rename_torchvision)
    rule = _RULES[variant](arrays, depth)
    return convert(arrays, encoder, lambda layer, role: rule(*_split_layer(layer), role))


def _split_layer(layer: str) -> tuple[int, int, str]:
    """`stage2_unit3/reduce` -> (2, 3, "reduce"); the stem is stage 0."""
    if match := re.fullmatch(r"stage(\d+)_unit(\d+)/(\w+)", layer):
        return int(match[1]), int(match[2]), match[3]
    return 0, 0, layer


_LayerRule = Callable[[int, int, str, str], Taken]


def _keras(arrays: Mapping[str, np.ndarray], depth: str) -> _LayerRule:
    del depth
    names = KerasNames(arrays)

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        end = "bn" if role.startswith("norm_") else "conv"
        if not stage:
            return names.find(f"conv1_{end}", role)
        return names.find(f"conv{stage + 1}_block{unit}_{_CONVS.index(conv)}_{end}", role)

    return rule


def rename_torchvision(layer: str, role: str) -> Taken:
    """Returns the array in torchvision's state dict for a layer and a role; see `split_name`."""
    stage, unit, conv = _split_layer(layer)
    is_norm = role.startswith("norm_")
    number = _CONVS.index(conv) if stage else 1
    name = f"{'bn' if is_norm else 'conv'}{number}"
    if conv == "shortcut":
        name = f"downsample.{int(is_norm)}"
    block = f"layer{stage}.{unit - 1}." if stage else ""
    name = f"{block}{name}.{TORCH[role]}"
    if is_norm:
        return Taken(name)
    return Taken(name, lambda kernel: kernel.transpose(2, 3, 1, 0), "OIHW to HWIO")


def _slim(arrays: Mapping[str, np.ndarray], depth: str) -> _LayerRule:
    scope = f"resnet_v1_{depth}/"
    prefix = find_prefix(arrays, f"{scope}conv1/weights") + scope

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        if not stage:
            return Taken(f"{prefix}conv1/{SLIM[role]}")
        layer = "shortcut" if conv == "shortcut" else f"conv{_CONVS.index(conv)}"
        return Taken(f"{prefix}block{stage}/unit_{unit}/bottleneck_v1/{layer}/{SLIM[role]}")

    return rule


def _simclr(arrays: Mapping[str, np.ndarray], depth: str) -> _LayerRule:
    if any("initial_conv_relu_max_pool/" in name for name in arrays):
        return _simclr_objects(arrays)
    # TensorFlow numbers layers of a kind in the order of creation, a unit's shortcut first.
    made = [(0, 0, "stem")]
    for stage, units in enumerate(resnet.DEPTHS[depth], start=1):
        for unit in range(1, units + 1):
            made += [(stage, unit, conv) for conv in _CONVS[unit > 1 :]]
    bodies = [name for name in arrays if not re.search(r"(^|/)(_projection_)?head", name)]
    convs = number_layers(bodies, "conv2d")
    norms = number_layers(bodies, "(sync_)?batch_normalization")

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        layers = norms if role.startswith("norm_") else convs
        place = made.index((stage, unit, conv))
        layer = layers[place] if place < len(layers) else f"{stage}.{unit}.{conv}"
        return Taken(f"{layer}/{TENSORFLOW[role]}")

    return rule


def _simclr_objects(arrays: Mapping[str, np.ndarray]) -> _LayerRule:
    """Names of a TensorFlow 2 checkpoint: the path of attributes to each variable."""
    prefix = find_prefix(arrays, "initial_conv_relu_max_pool/0/conv2d/kernel")
    # Positions of a unit's layers with weights in its list, between which there are DropBlocks.
    places = {"reduce": 0, "spatial": 3, "expand": 6}

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        is_norm = role.startswith("norm_")
        block = f"block_groups/{stage - 1}/layers/{unit - 1}/"
        if not stage:
            place = f"initial_conv_relu_max_pool/{2 * is_norm}"
        elif conv == "shortcut":
            place = f"{block}projection_layers/{int(is_norm)}"
        else:
            place = f"{block}conv_relu_dropblock_layers/{places[conv] + is_norm}"
        return Taken(f"{prefix}{place}/{'bn' if is_norm else 'conv2d'}/{TENSORFLOW[role]}")

    return rule


_RULES: Mapping[str, Callable[[Mapping[str, np.ndarray], str], _LayerRule]] = {
    "keras": _keras,
    "slim": _slim,
    "simclr": _simclr,
}
