"""ResNet-50, 101 and 152 from keras.applications, torchvision, TF-slim and SimCLRv2."""

import re
from collections.abc import Callable

from xmodal.core.errors import UserError
from xmodal.models.encoders import resnet
from xmodal.pretrained.cnn_names import (
    SLIM,
    TENSORFLOW,
    KerasNames,
    by_role,
    find_scope,
    image_tower,
    number_layers,
    torch_array,
)
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.layer_rules import Arrays, LayerRule
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


def describe_resnet(source: WeightSource) -> Published:
    """Returns a ResNet of the requested variant, with the depth given by its convolutions.

    Raises:
      UserError: no ResNet has this number of convolutions.
    """
    arrays, variant = source.arrays, source.variant
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
    rule = _RULES[variant](arrays, depth)
    return image_tower(
        encoder, lambda layer, role: rule(*_split_layer(layer), role), normalization, 224, _UNUSED
    )


def torchvision_encoder(
    arrays: Arrays, start: str, variant: str = "torchvision"
) -> tuple[dict[str, object], LayerRule]:
    """Returns the section of torchvision's ResNet or ResNeXt with bottlenecks, and its rule.

    Args:
      arrays: arrays of a source.
      start: start of the names of the network, with its period.
      variant: variant of a ResNet; a ResNeXt is always torchvision's.

    Raises:
      UserError: the units are not those of a known depth.
    """
    pattern = re.compile(rf"{re.escape(start)}layer(\d)\.(\d+)\.conv3\.weight")
    stages = [match[1] for match in map(pattern.fullmatch, arrays) if match]
    units = tuple(stages.count(stage) for stage in sorted(set(stages)))
    depth = next((d for d, wanted in resnet.DEPTHS.items() if units == wanted), None)
    if depth is None:
        known = ", ".join(resnet.DEPTHS)
        raise UserError(f"its CNN has {units} bottlenecks per stage; known are ResNets of {known}.")
    groups = _groups(arrays, f"{start}layer1.0.conv2.weight")
    variant = "torchvision" if groups else variant
    encoder = {"name": "resnet", "depth": int(depth), "variant": variant, **groups}
    return encoder, torchvision(start)


def _groups(arrays: Arrays, kernel: str) -> dict[str, int]:
    """The keywords of a ResNeXt, whose spatial convolutions have groups."""
    channels, width = arrays[kernel].shape[:2] if kernel in arrays else (0, 0)
    return {} if channels == width else {"cardinality": channels // width, "group_width": width}


def torchvision(start: str, place: Callable[[str], str] = lambda layer: layer) -> LayerRule:
    """The rule for torchvision's ResNets.

    Args:
      start: start of the names in the source.
      place: torchvision's name of a layer at the top -> its name in the source.
    """
    rule = _torchvision({}, "", start, place)
    return by_role(lambda layer, role: rule(*_split_layer(layer), role))


def _split_layer(layer: str) -> tuple[int, int, str]:
    """`stage2_unit3/reduce` -> (2, 3, "reduce"); the stem is stage 0."""
    if match := re.fullmatch(r"stage(\d+)_unit(\d+)/(\w+)", layer):
        return int(match[1]), int(match[2]), match[3]
    return 0, 0, layer


_LayerRule = Callable[[int, int, str, str], Taken]


def _torchvision(
    arrays: Arrays, depth: str, start: str = "", place: Callable[[str], str] = lambda layer: layer
) -> _LayerRule:
    del arrays, depth

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        is_norm = role.startswith("norm_")
        name = f"{'bn' if is_norm else 'conv'}{_CONVS.index(conv) if stage else 1}"
        if conv == "shortcut":
            name = f"downsample.{int(is_norm)}"
        if not stage:
            return torch_array(f"{start}{place(name)}", role)
        return torch_array(f"{start}{place(f'layer{stage}')}.{unit - 1}.{name}", role)

    return rule


def _keras(arrays: Arrays, depth: str) -> _LayerRule:
    del depth
    names = KerasNames(arrays)

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        end = "bn" if role.startswith("norm_") else "conv"
        block = f"conv{stage + 1}_block{unit}_{_CONVS.index(conv)}" if stage else "conv1"
        return names.find(f"{block}_{end}", role)

    return rule


def _slim(arrays: Arrays, depth: str) -> _LayerRule:
    scope = f"resnet_v1_{depth}/"
    prefix = find_scope(arrays, f"{scope}conv1/weights") + scope

    def rule(stage: int, unit: int, conv: str, role: str) -> Taken:
        if not stage:
            return Taken(f"{prefix}conv1/{SLIM[role]}")
        layer = "shortcut" if conv == "shortcut" else f"conv{_CONVS.index(conv)}"
        return Taken(f"{prefix}block{stage}/unit_{unit}/bottleneck_v1/{layer}/{SLIM[role]}")

    return rule


def _simclr(arrays: Arrays, depth: str) -> _LayerRule:
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


def _simclr_objects(arrays: Arrays) -> _LayerRule:
    """Names of a TensorFlow 2 checkpoint: the path of attributes to each variable."""
    prefix = find_scope(arrays, "initial_conv_relu_max_pool/0/conv2d/kernel")
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


_RULES: dict[str, Callable[[Arrays, str], _LayerRule]] = {
    "keras": _keras,
    "slim": _slim,
    "simclr": _simclr,
    "torchvision": _torchvision,
    "vse_infinity": _torchvision,
}
