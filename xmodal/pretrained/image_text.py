"""What released image-text models share: preprocessing, and sizes read off their arrays."""

import re

from xmodal.config import UserError
from xmodal.models.encoders.resnet import DEPTHS
from xmodal.pretrained.torch_models import Arrays

IMAGES = {"size": 224, "eval_recipe": "torchvision", "eval_crop": 0.875}
"""The center of an image whose shorter side is 256; pixels are normalized by the encoder."""
SENTENCES = {
    "tokenizer": "nltk",
    "lower_case": True,
    "unknown": "token",
    "markers": "sentence",
}
"""NLTK's words between `<start>` and `<end>`, unknown ones as `<unk>`."""


def torchvision_depth(arrays: Arrays, start: str) -> int:
    """Returns the depth of torchvision's ResNet with bottlenecks.

    Args:
      arrays: of a source.
      start: of the names of the network.

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
