"""ResNet-50, 101 and 152 from keras.applications, torchvision, TF-slim and SimCLRv2."""

import itertools
import re
from collections.abc import Callable, Sequence

from xmodal.core.errors import UserError
from xmodal.models.encoders import resnet
from xmodal.pretrained.cnn_weights import find_scope, image_tower, keras_names, number_layers
from xmodal.pretrained.layer_rules import Arrays, Table, count_layers, nest
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

# Classifiers, projection heads, momenta and other arrays that the encoder does not have.
_UNUSED = (
    r"(model_weights/)?(layers/)?(predictions|probs|fc1000)/",
    r"fc\.(weight|bias)$",
    r".*\blogits/(weights|biases)$",
    r".*\bmean_rgb$",
    r"(.*/)?(_projection_head|supervised_head|head_supervised|head_contrastive)/",
    r".*/(Momentum|ExponentialMovingAverage)$",
)
_COPIES = ("Momentum", "ExponentialMovingAverage", "RMSProp", "RMSProp_1")
_CONVS = ("shortcut", "reduce", "spatial", "expand")

_Names = Callable[[int, int, int], tuple[str, str]]
"""From a stage, unit and place among `_CONVS` to the convolution and the norm in the source."""


def describe_resnet(source: WeightSource) -> Published:
    """Returns a ResNet of the requested variant, with the depth given by its convolutions."""
    arrays, variant = keras_names(source.arrays), source.variant
    convs = sum(array.ndim == 4 and not name.endswith(_COPIES) for name, array in arrays.items())
    # The stem, three per unit, a shortcut in each stage; TF-slim's classifier is a convolution,
    # too.
    counts = {d: 1 + len(units) + 3 * sum(units) for d, units in resnet.DEPTHS.items()}
    depth = next((d for d, count in counts.items() if convs in (count, count + 1)), None)
    if depth is None:
        known = ", ".join(f"{count} (depth {d})" for d, count in counts.items())
        raise UserError(f"it has {convs} convolutions, a ResNet {known}.")
    encoder = {"name": "resnet", "depth": int(depth), "variant": variant}
    encoder |= _groups(arrays, "layer1.0.conv2.weight")
    normalization = resnet.VARIANTS[variant].normalization
    if variant == "slim" and any(name.split("/")[-1] == "mean_rgb" for name in arrays):
        # TF-slim's checkpoints of 2016 hold the mean that was subtracted from their pixels. Others
        # with these names, such as TF-Hub's, were trained on pixels in [-1, 1].
        normalization = encoder["normalization"] = "vgg"
    names = {"keras": _keras, "slim": _slim(arrays, depth)}.get(variant, _torchvision)
    table = _table(resnet.DEPTHS[depth], names)
    if variant == "simclr":
        table = _simclr(arrays, resnet.DEPTHS[depth])
    return image_tower(encoder, arrays, table, normalization, 224, _UNUSED)


def torchvision_encoder(
    arrays: Arrays, start: str, variant: str = "torchvision"
) -> tuple[dict[str, object], Table]:
    """Returns the section of torchvision's ResNet or ResNeXt with bottlenecks, and its table.

    Args:
      arrays: arrays of a source.
      start: start of the names of the network, with its period.
      variant: variant of a ResNet; a ResNeXt is always torchvision's.
    """
    counts = [count_layers(arrays, f"{start}layer{n}.{{}}.conv3.weight") for n in range(1, 10)]
    units = tuple(filter(None, counts))
    depth = next((d for d, wanted in resnet.DEPTHS.items() if units == wanted), None)
    if depth is None:
        known = ", ".join(resnet.DEPTHS)
        raise UserError(f"its CNN has {units} bottlenecks per stage; known are ResNets of {known}.")
    groups = _groups(arrays, f"{start}layer1.0.conv2.weight")
    variant = "torchvision" if groups else variant
    encoder = {"name": "resnet", "depth": int(depth), "variant": variant, **groups}
    return encoder, nest("encoder/", start, _table(units, _torchvision))


def _groups(arrays: Arrays, kernel: str) -> dict[str, int]:
    """The keywords of a ResNeXt, whose spatial convolutions have groups."""
    channels, width = arrays[kernel].shape[:2] if kernel in arrays else (0, 0)
    return {} if channels == width else {"cardinality": channels // width, "group_width": width}


def _table(units: Sequence[int], names: _Names) -> dict[str, str]:
    """The table of a ResNet; its layers are in the order in which TensorFlow creates them."""
    table: dict[str, str] = {}
    table["stem"], table["stem_norm"] = names(0, 0, 1)
    for stage, count in enumerate(units, start=1):
        for unit in range(1, count + 1):
            for number, conv in list(enumerate(_CONVS))[unit > 1 :]:
                ours = f"stage{stage}_unit{unit}/{conv}"
                table[ours], table[f"{ours}_norm"] = names(stage, unit, number)
    return table


def _torchvision(stage: int, unit: int, number: int) -> tuple[str, str]:
    block = f"layer{stage}.{unit - 1}." if stage else ""
    kinds = ("conv", "bn") if number else ("downsample.0", "downsample.1")
    conv, norm = (f"{block}{kind}{number or ''}" for kind in kinds)
    return conv, norm


def _keras(stage: int, unit: int, number: int) -> tuple[str, str]:
    block = f"conv{stage + 1}_block{unit}_{number}" if stage else "conv1"
    return f"{block}_conv", f"{block}_bn"


def _slim(arrays: Arrays, depth: str) -> _Names:
    scope = f"resnet_v1_{depth}/"
    prefix = find_scope(arrays, f"{scope}conv1/weights") + scope

    def names(stage: int, unit: int, number: int) -> tuple[str, str]:
        block = f"block{stage}/unit_{unit}/bottleneck_v1/" if stage else ""
        layer = f"{prefix}{block}{f'conv{number}' if number else 'shortcut'}"
        return layer, f"{layer}/BatchNorm"

    return names


def _simclr(arrays: Arrays, units: Sequence[int]) -> Table:
    first = "initial_conv_relu_max_pool/"
    if not any(first in name for name in arrays):
        bodies = [name for name in arrays if not re.search(r"(^|/)(_projection_)?head", name)]
        convs = number_layers(bodies, "conv2d")
        norms = number_layers(bodies, "(sync_)?batch_normalization")
        made = itertools.chain.from_iterable(zip(convs, norms, strict=False))
        return dict(zip(_table(units, _keras), made, strict=False))
    # Names of a TensorFlow 2 checkpoint: the path of attributes to each variable.
    prefix = find_scope(arrays, f"{first}0/conv2d/kernel")

    def names(stage: int, unit: int, number: int) -> tuple[str, str]:
        block = f"{prefix}block_groups/{stage - 1}/layers/{unit - 1}/"
        # Positions of a unit's layers with weights in its list, between which there are DropBlocks.
        places, place = f"{block}conv_relu_dropblock_layers/", 3 * (number - 1)
        conv, norm = f"{places}{place}", f"{places}{place + 1}"
        if not stage:
            conv, norm = f"{prefix}{first}0", f"{prefix}{first}2"
        elif not number:
            conv, norm = f"{block}projection_layers/0", f"{block}projection_layers/1"
        return f"{conv}/conv2d", f"{norm}/bn"

    return _table(units, names)
