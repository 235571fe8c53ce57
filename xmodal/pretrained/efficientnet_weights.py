"""EfficientNet from keras.applications."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.base.config import UserError
from xmodal.models.encoders import pixels
from xmodal.pretrained.conversion_report import Report, Taken
from xmodal.pretrained.keras_names import KerasNames
from xmodal.pretrained.renaming import Flat, convert

# The classifier, and the normalization of pixels, which `pixels.normalize` implements.
EXPECTED_UNEXPECTED = (r"predictions/", r"normalization(_\d+)?/")

_ROLES = {
    "expand": ("expand_conv", "expand_bn"),
    "depthwise": ("dwconv", "bn"),
    "squeeze": ("se_reduce", ""),
    "excite": ("se_expand", ""),
    "project": ("project_conv", "project_bn"),
}


def convert_efficientnet(arrays: Mapping[str, np.ndarray], **keywords: Any) -> tuple[Flat, Report]:
    """Returns the arrays of an EfficientNet under our names.

    Args:
      arrays: names and arrays of a Keras file.
      **keywords: keywords of the encoder; only `variant`, or `width` and `depth`, are used.

    Returns:
      Our arrays by name, and the report.

    Raises:
      UserError: a keyword is unknown, an array has another shape than the encoder's, or the file
        normalizes pixels with other statistics than the encoder.
    """
    encoder = {"name": "efficientnet", **keywords}
    _check_pixels(arrays)
    names = KerasNames(arrays)

    def rule(layer: str, role: str) -> Taken:
        is_norm = role.startswith("norm_")
        if match := re.fullmatch(r"stage(\d)_block(\d+)/(\w+)", layer):
            stage, block, conv = match.groups()
            letter = chr(ord("a") + int(block) - 1)
            return names.find(f"block{stage}{letter}_{_ROLES[conv][is_norm]}", role)
        end = "stem" if layer == "stem" else "top"
        return names.find(f"{end}_{'bn' if is_norm else 'conv'}", role)

    return convert(arrays, encoder, rule)


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
