"""Inception v3 from keras.applications and TF-slim."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.models.encoders import inception_v3
from xmodal.pretrained.conversion_report import Report, Taken
from xmodal.pretrained.keras_names import KerasNames
from xmodal.pretrained.renaming import SLIM, Flat, Rule, convert, find_prefix, number_layers

# Classifiers, including the auxiliary one, and other arrays that the encoder does not have.
EXPECTED_UNEXPECTED = (
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


def convert_inception_v3(arrays: Mapping[str, np.ndarray], **keywords: Any) -> tuple[Flat, Report]:
    """Returns the arrays of an Inception v3 under our names.

    Args:
      arrays: names and arrays of a Keras file or of a TF-slim checkpoint.
      **keywords: keywords of the encoder; none changes an array.

    Returns:
      Our arrays by name, and the report.

    Raises:
      UserError: a keyword is unknown, or an array has another shape than the encoder's.
    """
    encoder = {"name": "inception_v3", **keywords}
    is_slim = any(_SCOPE in name for name in arrays)
    return convert(arrays, encoder, _slim(arrays) if is_slim else _keras(arrays))


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


def _keras(arrays: Mapping[str, np.ndarray]) -> Rule:
    # The layers have no names: Keras numbers them in the order of their creation.
    names = KerasNames(arrays)
    convs = number_layers(arrays, "conv2d")
    norms = number_layers(arrays, "batch_normalization")
    places = {name: place for place, name in enumerate(_list_convs())}

    def rule(layer: str, role: str) -> Taken:
        found, place = norms if role.startswith("norm_") else convs, places[layer]
        return names.find(found[place] if place < len(found) else layer, role)

    return rule


def _slim(arrays: Mapping[str, np.ndarray]) -> Rule:
    prefix = find_prefix(arrays, f"{_SCOPE}Conv2d_1a_3x3/weights") + _SCOPE
    kernels = {name: "{}x{}".format(*conv.kernel) for name, conv in _list_convs().items()}

    def rule(layer: str, role: str) -> Taken:
        if match := re.fullmatch(r"mixed_(\w+)/branch(\d)_(\w)", layer):
            block, branch, letter = match.groups()
            name = _SLIM_EXCEPTIONS.get(layer, f"Conv2d_0{letter}_{kernels[layer]}")
            return Taken(f"{prefix}Mixed_{block}/Branch_{branch}/{name}/{SLIM[role]}")
        name = f"Conv2d_{layer.removeprefix('conv_')}_{kernels[layer]}"
        return Taken(f"{prefix}{name}/{SLIM[role]}")

    return rule
