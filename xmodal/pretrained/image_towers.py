"""Describes published image weights from their arrays."""

from collections.abc import Mapping

import numpy as np

from xmodal.core.errors import UserError
from xmodal.models.encoders import mobilenet_v2, resnet
from xmodal.models.encoders.mbconv import scale_channels
from xmodal.pretrained.folder import Description
from xmodal.pretrained.keras_names import KerasNames
from xmodal.pretrained.weight_files import WeightSource

# The published widths of MobileNetV2.
MOBILENET_WIDTHS = (0.35, 0.5, 0.75, 1.0, 1.3, 1.4)

# Image size, in pixels, that the weights were trained on.
_EFFICIENTNET_SIZES = {
    "b0": 224, "b1": 240, "b2": 260, "b3": 300, "b4": 380, "b5": 456, "b6": 528, "b7": 600,
    "lite0": 224, "lite1": 240, "lite2": 260, "lite3": 280, "lite4": 300,
}  # fmt: skip
_COPIES = ("Momentum", "ExponentialMovingAverage", "RMSProp", "RMSProp_1")


def describe_resnet(source: WeightSource, variant: str) -> Description:
    """Returns a ResNet of the requested variant, with the depth given by its convolutions.

    Raises:
      UserError: no ResNet has this number of convolutions.
    """
    convs = sum(
        array.ndim == 4 and not name.endswith(_COPIES) for name, array in source.arrays.items()
    )
    # The stem, three per unit, a shortcut in each of the four stages; TF-slim's classifier is a
    # convolution, too.
    depths = {depth: 5 + 3 * sum(units) for depth, units in resnet.DEPTHS.items()}
    found = [depth for depth, count in depths.items() if convs in (count, count + 1)]
    if not found:
        known = ", ".join(f"{count} (depth {depth})" for depth, count in depths.items())
        raise UserError(f"{source.path} has {convs} convolutions, a ResNet {known}.")
    keywords = {"depth": int(found[0]), "variant": variant}
    kernel = source.arrays.get("layer1.0.conv2.weight")
    if kernel is not None and kernel.shape[0] != kernel.shape[1]:  # ResNeXt
        keywords |= {"cardinality": len(kernel) // kernel.shape[1], "group_width": kernel.shape[1]}
    normalization = resnet.VARIANTS[variant].normalization
    if variant == "slim" and any(name.split("/")[-1] == "mean_rgb" for name in source.arrays):
        # TF-slim's checkpoints of 2016 hold the mean that was subtracted from their pixels. Others
        # with these names, such as TF-Hub's, were trained on pixels in [-1, 1].
        normalization = keywords["normalization"] = "vgg"
    return _describe("resnet", keywords, normalization, 224)


def describe_efficientnet(source: WeightSource, variant: str) -> Description:
    """Returns the requested variant; the converter checks whether the source matches it."""
    del source
    # tensorflow/tpu trains Lite on (pixel - 127) / 128. Converted from torch, too, it prefers them:
    # ridge regression from TF-IDF of captions to features of 328 test images of Flickr8k, trained
    # on 328, finds 47.8 % in the top 10, and 42.4 % with ImageNet's statistics.
    normalization = "efficientnet_lite" if variant.startswith("lite") else "imagenet"
    keywords = {"variant": variant}
    return _describe("efficientnet", keywords, normalization, _EFFICIENTNET_SIZES[variant])


def describe_inception_v3(source: WeightSource, variant: str) -> Description:
    """Returns Inception v3, which has only one variant."""
    del source, variant
    return _describe("inception_v3", {}, "inception", 299)


def describe_mobilenet_v2(source: WeightSource, variant: str) -> Description:
    """Returns a MobileNetV2, with the width given by its last narrow convolution.

    Raises:
      UserError: it is not one, or of another width.
    """
    del variant
    is_folded = "block_16/project/kernel" in source.arrays
    kernel = "block_16/project/kernel" if is_folded else _keras_kernel(source.arrays)
    if kernel not in source.arrays:
        raise UserError(f"{source.path} is not a MobileNetV2: it has no {kernel}.")
    channels = source.arrays[kernel].shape[-1]
    last = mobilenet_v2.STAGES[-1].channels
    found = [width for width in MOBILENET_WIDTHS if scale_channels(last, width) == channels]
    if not found:
        raise UserError(
            f"{source.path}: {kernel} has {channels} channels, which is not a width of MobileNetV2 "
            f"among {MOBILENET_WIDTHS}."
        )
    keywords = {"width": found[0]} | ({"folded": True} if is_folded else {})
    return _describe("mobilenet_v2", keywords, "inception", 224)


def _keras_kernel(arrays: Mapping[str, np.ndarray]) -> str:
    name = KerasNames(arrays).find("block_16_project", "kernel").name
    assert isinstance(name, str)
    return name


def _describe(
    name: str, keywords: Mapping[str, object], normalization: str, size: int
) -> Description:
    preprocessing = {"normalization": normalization, "size": size}
    return Description({"name": name, **keywords}, None, preprocessing)
