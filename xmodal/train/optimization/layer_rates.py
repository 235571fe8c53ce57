"""Layer-wise decay of the learning rate, along the first axis of stacked layers.

Bao et al., "BEiT: BERT Pre-Training of Image Transformers" (2022), after Clark et al., "ELECTRA"
(2020): of L layers, layer i (from 1) has the rate times d^(L + 1 - i), the embeddings below them
d^(L + 1), and whatever follows the layers 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError

# Names under `SIDE/encoder/`, from the bottom up; everything else there is an embedding.
_STACKS = ("lower_layers", "layers")
_AFTER = "norm"


def layer_rates(decay: float, path: str, shapes: Mapping[str, Any], where: str) -> Any:
    """Returns the multiplier of a parameter's rate: a float, or float32 [L, 1, ...] if stacked.

    Args:
      decay: d.
      path: path of the parameter, such as `image/encoder/layers/query/kernel`.
      shapes: all arrays or their shapes, frozen ones included, by path.
      where: the decay and its place in the config, for errors.

    Raises:
      UserError: the parameter belongs to an encoder without stacked layers.
    """
    side, part, *names = path.split("/")
    if part != "encoder" or names[0] == _AFTER:
        return 1.0
    depths = [_depth(f"{side}/encoder/{stack}/", shapes) for stack in _STACKS]
    if not any(depths):
        raise UserError(
            f"{where} is for stacked layers, but {side}/encoder has none: narrow the "
            "pattern of the group, or remove layer_decay."
        )
    if names[0] not in _STACKS:
        return decay ** (sum(depths) + 1)
    stack = _STACKS.index(names[0])
    above = sum(depths[stack + 1 :])
    exponents = np.arange(above + depths[stack], above, -1, dtype=np.float32)
    return (np.float32(decay) ** exponents).reshape(-1, *[1] * (len(shapes[path].shape) - 1))


def is_stacked(path: str) -> bool:
    """Returns whether a parameter's first axis is the layer, one tensor after the other."""
    _, *names = path.split("/")
    return len(names) > 2 and names[0] == "encoder" and names[1] in _STACKS


def _depth(prefix: str, shapes: Mapping[str, Any]) -> int:
    """The number of layers of the stack below a path; 0 if there is none."""
    return next((leaf.shape[0] for path, leaf in shapes.items() if path.startswith(prefix)), 0)
