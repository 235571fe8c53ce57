"""Inception v3 from keras.applications and TF-slim."""

import itertools
import re

from xmodal.models.encoders import inception_v3
from xmodal.pretrained.cnn_names import (
    SLIM,
    KerasNames,
    Rule,
    find_scope,
    image_tower,
    number_layers,
)
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.layer_rules import Arrays
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

# Classifiers, including the auxiliary one, and other arrays that the encoder does not have.
_UNUSED = (
    r"predictions/",
    r"(.*/)?InceptionV3/(Logits|AuxLogits)/",
    r".*/(Momentum|RMSProp(_1)?|ExponentialMovingAverage)$",
)

_SCOPE = "InceptionV3/"
# TF-slim names a convolution by its place in the branch and its kernel, except for these.
_SLIM_EXCEPTIONS = {
    "mixed_5c/branch1_a": "Conv2d_0b_1x1",
    "mixed_5c/branch1_b": "Conv_1_0c_5x5",
    "mixed_6a/branch0_a": "Conv2d_1a_1x1",
    "mixed_6a/branch1_c": "Conv2d_1a_1x1",
    "mixed_7a/branch0_b": "Conv2d_1a_3x3",
    "mixed_7a/branch1_d": "Conv2d_1a_3x3",
    "mixed_7b/branch1_c": "Conv2d_0b_3x1",
}


def describe_inception_v3(source: WeightSource) -> Published:
    """Returns Inception v3, of a Keras file or of a TF-slim checkpoint."""
    arrays = source.arrays
    rule = _slim(arrays) if any(_SCOPE in name for name in arrays) else _keras(arrays)
    return image_tower({"name": "inception_v3"}, rule, "inception", 299, _UNUSED)


def _list_convs() -> dict[str, inception_v3.InceptionConv]:
    """Returns our convolutions by name, in the order in which Keras and TF-slim create them."""
    steps = dict(inception_v3.STEM)
    for block, branches in inception_v3.BLOCKS.items():
        for number, branch in enumerate(branches):
            for letter, step in itertools.chain(*inception_v3.letter_steps(branch)):
                steps[f"{block}/branch{number}_{letter}"] = step
    return {
        name: step for name, step in steps.items() if isinstance(step, inception_v3.InceptionConv)
    }


def _keras(arrays: Arrays) -> Rule:
    # The layers have no names: Keras numbers them in the order of their creation.
    names = KerasNames(arrays)
    convs = number_layers(arrays, "conv2d")
    norms = number_layers(arrays, "batch_normalization")
    places = {name: place for place, name in enumerate(_list_convs())}

    def rule(layer: str, role: str) -> Taken:
        found, place = norms if role.startswith("norm_") else convs, places[layer]
        return names.find(found[place] if place < len(found) else layer, role)

    return rule


def _slim(arrays: Arrays) -> Rule:
    prefix = find_scope(arrays, f"{_SCOPE}Conv2d_1a_3x3/weights") + _SCOPE
    kernels = {name: "{}x{}".format(*conv.kernel) for name, conv in _list_convs().items()}

    def rule(layer: str, role: str) -> Taken:
        if match := re.fullmatch(r"mixed_(\w+)/branch(\d)_(\w)", layer):
            block, branch, letter = match.groups()
            name = _SLIM_EXCEPTIONS.get(layer, f"Conv2d_0{letter}_{kernels[layer]}")
            return Taken(f"{prefix}Mixed_{block}/Branch_{branch}/{name}/{SLIM[role]}")
        name = f"Conv2d_{layer.removeprefix('conv_')}_{kernels[layer]}"
        return Taken(f"{prefix}{name}/{SLIM[role]}")

    return rule
