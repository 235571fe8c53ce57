"""Preprocessing, image encoders and text encoders shared by released image-text models."""

import re
from typing import Any

from xmodal.core.errors import UserError
from xmodal.models.encoders.resnet import DEPTHS
from xmodal.pretrained import torch_models
from xmodal.pretrained.torch_models import Arrays, LayerRule

IMAGES = {"size": 224, "eval_recipe": "torchvision", "eval_crop": 0.875}
"""The central square after resizing the shorter side to 256; the encoder normalizes pixels."""
FEATURES = {"size": 0}
"""Image features stored with the dataset."""
SENTENCES = {
    "tokenizer": "nltk",
    "lower_case": True,
    "unknown": "token",
    "markers": "sentence",
}
"""NLTK's words between `<start>` and `<end>`, with unknown words as `<unk>`."""


def torchvision_depth(arrays: Arrays, start: str) -> int:
    """Returns the depth of torchvision's ResNet with bottlenecks.

    Args:
      arrays: arrays of a source.
      start: start of the names of the network.

    Raises:
      UserError: the units are not those of a known depth.
    """
    pattern = re.compile(rf"{re.escape(start)}layer(\d)\.(\d+)\.conv3\.weight")
    stages = [match[1] for match in map(pattern.fullmatch, arrays) if match]
    units = tuple(stages.count(stage) for stage in sorted(set(stages)))
    for depth, wanted in DEPTHS.items():
        if units == wanted:
            return int(depth)
    known = ", ".join(DEPTHS)
    raise UserError(f"its CNN has {units} bottlenecks per stage; known are ResNets of {known}.")


def torchvision_encoder(arrays: Arrays, start: str, variant: str = "torchvision") -> dict[str, Any]:
    """Returns the section of torchvision's ResNet or ResNeXt with bottlenecks.

    Args:
      arrays: arrays of a source.
      start: start of the names of the network.
      variant: variant of a ResNet; a ResNeXt is always torchvision's.

    Raises:
      UserError: see `torchvision_depth`.
    """
    encoder = {"name": "resnet", "depth": torchvision_depth(arrays, start)}
    channels, group_width, *_ = torch_models.array_shape(arrays, f"{start}layer1.0.conv2.weight")
    if group_width == channels:
        return encoder | {"variant": variant}
    encoder |= {"cardinality": channels // group_width, "group_width": group_width}
    return encoder | {"variant": "torchvision"}


def gru_encoder(
    arrays: Arrays, start: str, *, recurrent: str = "rnn", **options: Any
) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    """Returns the section of a table of word vectors with one layer of GRU, and its rules.

    Args:
      arrays: arrays of a source, with `embed` and `recurrent`.
      start: start of their names.
      recurrent: name of the GRU.
      **options: further keywords of the encoder.

    Raises:
      UserError: the source has no such arrays.
    """
    rows, words = torch_models.array_shape(arrays, f"{start}embed.weight")
    _, width = torch_models.array_shape(arrays, f"{start}{recurrent}.weight_hh_l0")
    encoder = {
        "name": "rnn",
        "cell": "gru",
        "vocab_size": rows,
        "embedding_width": words,
        "width": width,
        "layers": 1,
        "bidirectional": f"{start}{recurrent}.weight_hh_l0_reverse" in arrays,
        **options,
    }
    return encoder, {
        "encoder/table": torch_models.whole(f"{start}embed.weight"),
        "encoder/recurrent": torch_models.gru(f"{start}{recurrent}"),
    }
