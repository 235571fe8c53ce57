"""EfficientNet, Inception v3 and MobileNetV2 from Keras and others, and what CNNs share."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.models.encoders import efficientnet, inception_v3, mobilenet_v2
from xmodal.models.encoders.mbconv import scale_channels
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, Table, Taken, nest
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.weight_files import WeightSource

# Image size, in pixels, that the weights of an EfficientNet were trained on.
_SIZES = {
    "b0": 224, "b1": 240, "b2": 260, "b3": 300, "b4": 380, "b5": 456, "b6": 528, "b7": 600,
    "lite0": 224, "lite1": 240, "lite2": 260, "lite3": 280, "lite4": 300,
}  # fmt: skip
_WIDTHS = (0.35, 0.5, 0.75, 1.0, 1.3, 1.4)  # MobileNetV2's width multipliers.
# The layers of a block of EfficientNet, and those around the blocks.
_KERAS_BLOCK: Table = {
    "expand": "expand_conv",
    "expand_norm": "expand_bn",
    "depthwise": "dwconv/kernel",
    "depthwise_norm": "bn",
    "squeeze": "se_reduce",
    "excite": "se_expand",
    "project": "project_conv",
    "project_norm": "project_bn",
}
_ENDS = ("stem", "stem_norm", "head", "head_norm")
_KERAS_ENDS = dict(zip(_ENDS, ("stem_conv", "stem_bn", "top_conv", "top_bn"), strict=True))
_TORCH_BLOCK: Table = {
    "expand": "_expand_conv",
    "expand_norm": "_bn0",
    # C1HW -> HWC1.
    "depthwise": Taken("_depthwise_conv.weight", lambda kernel: kernel.transpose(2, 3, 0, 1)),
    "depthwise_norm": "_bn1",
    "squeeze": "_se_reduce",
    "excite": "_se_expand",
    "project": "_project_conv",
    "project_norm": "_bn2",
}
_TORCH_ENDS = dict(zip(_ENDS, ("_conv_stem", "_bn0", "_conv_head", "_bn1"), strict=True))
# The same of MobileNetV2.
_MOBILE_BLOCK: Table = {
    "expand": "expand",
    "expand_norm": "expand_BN",
    "depthwise": "depthwise/kernel",
    "depthwise_norm": "depthwise_BN",
    "project": "project",
    "project_norm": "project_BN",
}
_MOBILE_ENDS = dict(zip(_ENDS, ("Conv1", "bn_Conv1", "Conv_1", "Conv_1_bn"), strict=True))
_FOLDED_BLOCK: Table = {
    "expand": "expand",
    # HW1C -> HWC1.
    "depthwise": Taken("dw/kernel", lambda kernel: kernel.transpose(0, 1, 3, 2)),
    "depthwise_bias": "dw/bias",
    "project": "project",
}
# TF-slim names a convolution of Inception by its place in the branch and its kernel, except for
# these.
_SLIM_EXCEPTIONS = {
    "mixed_5c/branch1_a": "Conv2d_0b_1x1",
    "mixed_5c/branch1_b": "Conv_1_0c_5x5",
    "mixed_6a/branch0_a": "Conv2d_1a_1x1",
    "mixed_6a/branch1_c": "Conv2d_1a_1x1",
    "mixed_7a/branch0_b": "Conv2d_1a_3x3",
    "mixed_7a/branch1_d": "Conv2d_1a_3x3",
    "mixed_7b/branch1_c": "Conv2d_0b_3x1",
}


def image_tower(
    encoder: Mapping[str, Any],
    arrays: Arrays,
    table: Table,
    normalization: str,
    size: int,
    unused: tuple[str, ...],
) -> Published:
    """Returns an image encoder without a head.

    Args:
      encoder: `name` and keywords, as in `config.model.image.encoder`.
      arrays: arrays of the source, see `keras_names`.
      table: see `layer_rules.Table`; paths within the encoder.
      normalization: normalization of the pixels.
      size: side of the images, in pixels, that the weights were trained on.
      unused: see `Published`.
    """
    description = Description(encoder, None, {"normalization": normalization, "size": size})
    tower = PublishedTower(description, nest("encoder/", "", table))
    return Published(image=tower, unused=unused, arrays=arrays)


def keras_names(arrays: Arrays) -> Arrays:
    """Returns arrays with the kernels of depthwise convolutions as `LAYER/kernel`."""
    return {name.replace("/depthwise_kernel", "/kernel"): array for name, array in arrays.items()}


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


def describe_efficientnet(source: WeightSource) -> Published:
    """Returns the requested variant, from Keras or from torch's EfficientNet-PyTorch, also Lite."""
    arrays, variant = keras_names(source.arrays), source.variant
    is_torch, is_lite = "_conv_stem.weight" in arrays, variant.startswith("lite")
    table: dict[str, str | Taken] = {**(_TORCH_ENDS if is_torch else _KERAS_ENDS)}
    counts = efficientnet.count_blocks(efficientnet.VARIANTS[variant][1], lite=is_lite)
    places = [(stage, place) for stage, n in enumerate(counts, 1) for place in range(n)]
    for number, (stage, place) in enumerate(places):
        theirs = f"_blocks.{number}." if is_torch else f"block{stage}{chr(ord('a') + place)}_"
        block = _TORCH_BLOCK if is_torch else _KERAS_BLOCK
        table |= nest(f"stage{stage}_block{place + 1}/", theirs, block)
    # tensorflow/tpu trains Lite on (pixel - 127) / 128. Converted from torch, too, it prefers them:
    # ridge regression from TF-IDF of captions to features of 328 test images of Flickr8k, trained
    # on 328, finds 47.8 % in the top 10, and 42.4 % with ImageNet's statistics.
    normalization = "efficientnet_lite" if is_lite else "imagenet"
    # The classifier, and the normalization of pixels, which `pixels.normalize` implements.
    unused = (r"predictions/", r"normalization(_\d+)?/", r"_fc\.")
    encoder = {"name": "efficientnet", "variant": variant}
    return image_tower(encoder, arrays, table, normalization, _SIZES[variant], unused)


def describe_mobilenet_v2(source: WeightSource) -> Published:
    """Returns a MobileNetV2, with the width given by its last narrow convolution.

    The source is a Keras file, or an archive with folded batch normalization that numbers the
    blocks: `stem/kernel`, `block_01/dw/bias`, `head/kernel`.
    """
    arrays = keras_names(source.arrays)
    is_folded = "block_16/project/kernel" in arrays
    ends = {"stem": "stem", "head": "head"} if is_folded else _MOBILE_ENDS
    table: dict[str, str | Taken] = {**ends}
    number = 0
    for stage, blocks in enumerate(mobilenet_v2.STAGES, 1):
        for place in range(1, blocks.blocks + 1):
            theirs = f"block_{number:02}/" if is_folded else f"block_{number}_"
            theirs = theirs if number or is_folded else "expanded_conv_"
            block = _FOLDED_BLOCK if is_folded else _MOBILE_BLOCK
            table |= nest(f"stage{stage}_block{place}/", theirs, block)
            number += 1
    kernel = "block_16/project/kernel" if is_folded else "block_16_project/kernel"
    channels = arrays[kernel].shape[-1] if kernel in arrays else 0
    last = mobilenet_v2.STAGES[-1].channels
    width = next((width for width in _WIDTHS if scale_channels(last, width) == channels), None)
    if width is None:
        raise UserError(
            f"it is not a MobileNetV2 of a width among {_WIDTHS}: {kernel} has {channels} channels."
        )
    encoder = {"name": "mobilenet_v2", "width": width} | ({"folded": True} if is_folded else {})
    # Classifiers, and the description in archives.
    unused = (r"(predictions|Logits|logits)/", r"meta_json$")
    return image_tower(encoder, arrays, table, "inception", 224, unused)


def describe_inception_v3(source: WeightSource) -> Published:
    """Returns Inception v3, of a Keras file or of a TF-slim checkpoint."""
    arrays, scope = keras_names(source.arrays), "InceptionV3/"
    table: dict[str, str] = {}
    if any(scope in name for name in arrays):
        prefix = find_scope(arrays, f"{scope}Conv2d_1a_3x3/weights") + scope
        for ours, conv in _inception_convs().items():
            size = "{}x{}".format(*conv.kernel)
            name = f"Conv2d_{ours.removeprefix('conv_')}_{size}"
            if match := re.fullmatch(r"mixed_(\w+)/branch(\d)_(\w)", ours):
                block, branch, letter = match.groups()
                own = _SLIM_EXCEPTIONS.get(ours, f"Conv2d_0{letter}_{size}")
                name = f"Mixed_{block}/Branch_{branch}/{own}"
            table[ours] = prefix + name
            table[f"{ours}_norm"] = f"{prefix}{name}/BatchNorm"
    else:  # The layers have no names: Keras numbers them in the order of their creation.
        kinds = (("", "conv2d"), ("_norm", "batch_normalization"))
        for end, kind in kinds:
            found = number_layers(arrays, kind)
            table |= {
                f"{ours}{end}": theirs
                for ours, theirs in itertools.zip_longest(_inception_convs(), found, fillvalue=kind)
            }
    unused = (
        # Classifiers, including the auxiliary one, and other arrays that the encoder does not have.
        r"predictions/",
        r"(.*/)?InceptionV3/(Logits|AuxLogits)/",
        r".*/(Momentum|RMSProp(_1)?|ExponentialMovingAverage)$",
    )
    return image_tower({"name": "inception_v3"}, arrays, table, "inception", 299, unused)


def _inception_convs() -> dict[str, inception_v3.InceptionConv]:
    """Returns our convolutions by name, in the order in which Keras and TF-slim create them."""
    steps = dict(inception_v3.STEM)
    for block, branches in inception_v3.BLOCKS.items():
        for number, branch in enumerate(branches):
            for letter, step in itertools.chain(*inception_v3.letter_steps(branch)):
                steps[f"{block}/branch{number}_{letter}"] = step
    return {
        name: step for name, step in steps.items() if isinstance(step, inception_v3.InceptionConv)
    }
