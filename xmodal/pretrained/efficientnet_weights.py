"""EfficientNet from keras.applications, and from torch's EfficientNet-PyTorch, also Lite."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders import efficientnet, pixels
from xmodal.pretrained.conversion_report import Report, Taken
from xmodal.pretrained.keras_names import KerasNames
from xmodal.pretrained.renaming import TORCH, Flat, Rule, convert

# The classifier, and the normalization of pixels, which `pixels.normalize` implements.
EXPECTED_UNEXPECTED = (r"predictions/", r"normalization(_\d+)?/", r"_fc\.")

_BLOCK = re.compile(r"stage(\d)_block(\d+)/(\w+)")
_ROLES = {
    "expand": ("expand_conv", "expand_bn"),
    "depthwise": ("dwconv", "bn"),
    "squeeze": ("se_reduce", ""),
    "excite": ("se_expand", ""),
    "project": ("project_conv", "project_bn"),
}
_TORCH_LAYERS = {
    "stem": ("_conv_stem", "_bn0"),
    "expand": ("_expand_conv", "_bn0"),
    "depthwise": ("_depthwise_conv", "_bn1"),
    "squeeze": ("_se_reduce", ""),
    "excite": ("_se_expand", ""),
    "project": ("_project_conv", "_bn2"),
    "head": ("_conv_head", "_bn1"),
}


def convert_efficientnet(arrays: Mapping[str, np.ndarray], **keywords: Any) -> tuple[Flat, Report]:
    """Returns the arrays of an EfficientNet under our names.

    Args:
      arrays: names and arrays of a Keras file, or of a state dict of lukemelas/EfficientNet-PyTorch
        and packages derived from it.
      **keywords: keywords of the encoder; only `variant`, or `width` and `depth`, are used.

    Returns:
      Our arrays by name, and the report.

    Raises:
      UserError: a keyword is unknown, an array has another shape than the encoder's, or the file
        normalizes pixels with other statistics than the encoder.
    """
    encoder = {"name": "efficientnet", **keywords}
    _check_pixels(arrays)
    is_torch = "_conv_stem.weight" in arrays
    return convert(arrays, encoder, _torch(keywords) if is_torch else _keras(arrays))


def _keras(arrays: Mapping[str, np.ndarray]) -> Rule:
    names = KerasNames(arrays)

    def rule(layer: str, role: str) -> Taken:
        is_norm = role.startswith("norm_")
        if match := _BLOCK.fullmatch(layer):
            stage, block, conv = match.groups()
            letter = chr(ord("a") + int(block) - 1)
            return names.find(f"block{stage}{letter}_{_ROLES[conv][is_norm]}", role)
        end = "stem" if layer == "stem" else "top"
        return names.find(f"{end}_{'bn' if is_norm else 'conv'}", role)

    return rule


def _torch(keywords: Mapping[str, Any]) -> Rule:
    """Names of a state dict, which numbers the blocks throughout."""
    variant = keywords.get("variant") or ""
    depth = efficientnet.VARIANTS[variant][1] if variant else keywords.get("depth") or 1.0
    counts = efficientnet.count_blocks(depth, lite=variant.startswith("lite"))

    def rule(layer: str, role: str) -> Taken:
        is_norm, block = role.startswith("norm_"), ""
        if match := _BLOCK.fullmatch(layer):
            stage, index, layer = match.groups()
            block = f"_blocks.{sum(counts[: int(stage) - 1]) + int(index) - 1}."
        name = f"{block}{_TORCH_LAYERS[layer][is_norm]}.{TORCH.get(role, role)}"
        if role != "kernel":
            return Taken(name)
        if layer == "depthwise":
            return Taken(name, lambda kernel: kernel.transpose(2, 3, 0, 1), "C1HW to HWC1")
        return Taken(name, lambda kernel: kernel.transpose(2, 3, 1, 0), "OIHW to HWIO")

    return rule


def _check_pixels(arrays: Mapping[str, np.ndarray]) -> None:
    """Raises an error if pixel statistics are neither ImageNet's nor those of a new model.

    Released files hold the standard deviation instead of the variance; Keras corrects for this.
    """
    for name, array in arrays.items():
        if match := re.fullmatch(r"normalization(_\d+)?/(mean|variance|[01])", name):
            is_mean = match[2] in ("mean", "0")
            std = np.array(pixels.STD)
            known: list[Any] = (
                [np.zeros(3), pixels.MEAN] if is_mean else [np.ones(3), std, np.square(std)]
            )
            if not any(np.allclose(np.ravel(array), values, atol=1e-3) for values in known):
                raise UserError(
                    f"{name} is {np.ravel(array).tolist()}: the weights were trained with other "
                    f"pixel statistics than ImageNet's {pixels.MEAN} and {pixels.STD}."
                )
