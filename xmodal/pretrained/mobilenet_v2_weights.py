"""MobileNetV2 from keras.applications, and from archives of its folded weights."""

import re
from collections.abc import Callable

from xmodal.core.errors import UserError
from xmodal.models.encoders import mobilenet_v2
from xmodal.models.encoders.mbconv import scale_channels
from xmodal.pretrained.cnn_names import KerasNames, image_tower
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.layer_rules import Arrays
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

# Classifiers, and the description in archives.
_UNUSED = (r"(predictions|Logits|logits)/", r"meta_json$")
_WIDTHS = (0.35, 0.5, 0.75, 1.0, 1.3, 1.4)


def describe_mobilenet_v2(source: WeightSource) -> Published:
    """Returns a MobileNetV2, with the width given by its last narrow convolution.

    The source is a Keras file, or an archive with folded batch normalization that numbers the
    blocks: `stem/kernel`, `block_01/dw/bias`, `head/kernel`.

    Raises:
      UserError: it is not one, or of another width.
    """
    arrays = source.arrays
    is_folded = "block_16/project/kernel" in arrays
    rule = _folded if is_folded else _keras(arrays)
    kernel = str(rule(16, "project", "kernel").name)
    channels = arrays[kernel].shape[-1] if kernel in arrays else 0
    last = mobilenet_v2.STAGES[-1].channels
    width = next((width for width in _WIDTHS if scale_channels(last, width) == channels), None)
    if width is None:
        raise UserError(
            f"it is not a MobileNetV2 of a width among {_WIDTHS}: {kernel} has {channels} channels."
        )
    encoder = {"name": "mobilenet_v2", "width": width} | ({"folded": True} if is_folded else {})
    return image_tower(
        encoder, lambda layer, role: rule(*_split_layer(layer), role), "inception", 224, _UNUSED
    )


def _split_layer(layer: str) -> tuple[int, str]:
    """`stage2_block3/expand` -> (3, "expand"), counting blocks from 0 throughout."""
    match = re.fullmatch(r"stage(\d+)_block(\d+)/(\w+)", layer)
    if not match:
        return -1, layer
    before = sum(stage.blocks for stage in mobilenet_v2.STAGES[: int(match[1]) - 1])
    return before + int(match[2]) - 1, match[3]


def _keras(arrays: Arrays) -> Callable[[int, str, str], Taken]:
    names = KerasNames(arrays)
    ends = {"stem": ("Conv1", "bn_Conv1"), "head": ("Conv_1", "Conv_1_bn")}

    def rule(block: int, conv: str, role: str) -> Taken:
        is_norm = role.startswith("norm_")
        if block < 0:
            return names.find(ends[conv][is_norm], role)
        prefix = f"block_{block}" if block else "expanded_conv"
        return names.find(f"{prefix}_{conv}{'_BN' if is_norm else ''}", role)

    return rule


def _folded(block: int, conv: str, role: str) -> Taken:
    if block < 0:
        return Taken(f"{conv}/{role}")
    if (conv, role) == ("depthwise", "kernel"):
        name = f"block_{block:02}/dw/kernel"
        return Taken(name, lambda kernel: kernel.transpose(0, 1, 3, 2), "HW1C to HWC1")
    layer = "dw" if conv == "depthwise" else conv
    return Taken(f"block_{block:02}/{layer}/{role}")
