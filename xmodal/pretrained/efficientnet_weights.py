"""EfficientNet from keras.applications, and from torch's EfficientNet-PyTorch, also Lite."""

import re

from xmodal.models.encoders import efficientnet
from xmodal.pretrained.cnn_names import KerasNames, Rule, image_tower, torch_array
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.layer_rules import Arrays
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

# The classifier, and the normalization of pixels, which `pixels.normalize` implements.
_UNUSED = (r"predictions/", r"normalization(_\d+)?/", r"_fc\.")
# Image size, in pixels, that the weights were trained on.
_SIZES = {
    "b0": 224, "b1": 240, "b2": 260, "b3": 300, "b4": 380, "b5": 456, "b6": 528, "b7": 600,
    "lite0": 224, "lite1": 240, "lite2": 260, "lite3": 280, "lite4": 300,
}  # fmt: skip
_BLOCK = re.compile(r"stage(\d)_block(\d+)/(\w+)")
# Our layer -> the names of its convolution and its norm.
_KERAS_LAYERS = {
    "stem": ("stem_conv", "stem_bn"),
    "expand": ("expand_conv", "expand_bn"),
    "depthwise": ("dwconv", "bn"),
    "squeeze": ("se_reduce", ""),
    "excite": ("se_expand", ""),
    "project": ("project_conv", "project_bn"),
    "head": ("top_conv", "top_bn"),
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


def describe_efficientnet(source: WeightSource) -> Published:
    """Returns the requested variant."""
    arrays, variant = source.arrays, source.variant
    is_torch = "_conv_stem.weight" in arrays
    # tensorflow/tpu trains Lite on (pixel - 127) / 128. Converted from torch, too, it prefers them:
    # ridge regression from TF-IDF of captions to features of 328 test images of Flickr8k, trained
    # on 328, finds 47.8 % in the top 10, and 42.4 % with ImageNet's statistics.
    normalization = "efficientnet_lite" if variant.startswith("lite") else "imagenet"
    encoder = {"name": "efficientnet", "variant": variant}
    rule = _torch(variant) if is_torch else _keras(arrays)
    return image_tower(encoder, rule, normalization, _SIZES[variant], _UNUSED)


def _keras(arrays: Arrays) -> Rule:
    names = KerasNames(arrays)

    def rule(layer: str, role: str) -> Taken:
        block = ""
        if match := _BLOCK.fullmatch(layer):
            stage, index, layer = match.groups()
            block = f"block{stage}{chr(ord('a') + int(index) - 1)}_"
        return names.find(f"{block}{_KERAS_LAYERS[layer][role.startswith('norm_')]}", role)

    return rule


def _torch(variant: str) -> Rule:
    """Names of a state dict, which numbers the blocks throughout."""
    depth = efficientnet.VARIANTS[variant][1]
    counts = efficientnet.count_blocks(depth, lite=variant.startswith("lite"))

    def rule(layer: str, role: str) -> Taken:
        block = ""
        if match := _BLOCK.fullmatch(layer):
            stage, index, layer = match.groups()
            block = f"_blocks.{sum(counts[: int(stage) - 1]) + int(index) - 1}."
        name = f"{block}{_TORCH_LAYERS[layer][role.startswith('norm_')]}"
        if (layer, role) == ("depthwise", "kernel"):
            change = lambda kernel: kernel.transpose(2, 3, 0, 1)  # noqa: E731
            return Taken(f"{name}.weight", change, "C1HW to HWC1")
        return torch_array(name, role)

    return rule
