"""MobileNetV2 from keras.applications, and from archives of its folded weights."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xmodal.models.encoders import mobilenet_v2
from xmodal.pretrained.conversion_report import Report, Taken
from xmodal.pretrained.keras_names import KerasNames
from xmodal.pretrained.renaming import Flat, convert

# Classifiers, and the description in archives.
EXPECTED_UNEXPECTED = (r"(predictions|Logits|logits)/", r"meta_json$")


def convert_mobilenet_v2(arrays: Mapping[str, np.ndarray], **keywords: Any) -> tuple[Flat, Report]:
    """Returns the arrays of a MobileNetV2 under our names.

    Args:
      arrays: names and arrays of a Keras file; or, for folded=True, of an archive that
        numbers the blocks: `stem/kernel`, `block_01/dw/bias`, `head/kernel`.
      **keywords: keywords of the encoder; only `width` and `folded` are used.

    Returns:
      Our arrays by name, and the report.

    Raises:
      UserError: a keyword is unknown, or an array has another shape than the encoder's.
    """
    encoder = {"name": "mobilenet_v2", **keywords}
    is_folded = keywords.get("folded", False)
    rule = _folded() if is_folded else _keras(arrays)
    return convert(arrays, encoder, lambda layer, role: rule(*_split_layer(layer), role))


def _split_layer(layer: str) -> tuple[int, str]:
    """`stage2_block3/expand` -> (3, "expand"), counting blocks from 0 throughout."""
    match = re.fullmatch(r"stage(\d+)_block(\d+)/(\w+)", layer)
    if not match:
        return -1, layer
    before = sum(stage.blocks for stage in mobilenet_v2.STAGES[: int(match[1]) - 1])
    return before + int(match[2]) - 1, match[3]


def _keras(arrays: Mapping[str, np.ndarray]) -> Callable[[int, str, str], Taken]:
    names = KerasNames(arrays)
    ends = {"stem": ("Conv1", "bn_Conv1"), "head": ("Conv_1", "Conv_1_bn")}

    def rule(block: int, conv: str, role: str) -> Taken:
        is_norm = role.startswith("norm_")
        if block < 0:
            return names.find(ends[conv][is_norm], role)
        prefix = f"block_{block}" if block else "expanded_conv"
        return names.find(f"{prefix}_{conv}{'_BN' if is_norm else ''}", role)

    return rule


def _folded() -> Callable[[int, str, str], Taken]:
    def rule(block: int, conv: str, role: str) -> Taken:
        if block < 0:
            return Taken(f"{conv}/{role}")
        if (conv, role) == ("depthwise", "kernel"):
            name = f"block_{block:02}/dw/kernel"
            return Taken(name, lambda kernel: kernel.transpose(0, 1, 3, 2), "HW1C to HWC1")
        layer = "dw" if conv == "depthwise" else conv
        return Taken(f"block_{block:02}/{layer}/{role}")

    return rule
