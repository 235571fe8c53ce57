"""Groups of trained parameters that differ in rate, clipping or the step they start at.

Layer-wise decay of the rate, along the first axis of stacked layers: Bao et al., "BEiT: BERT
Pre-Training of Image Transformers" (2022), after Clark et al., "ELECTRA" (2020). Of L layers, layer
i (from 1) has the rate times d^(L + 1 - i), the embeddings below them d^(L + 1), and whatever
follows the layers 1.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.train.tree import check_patterns, matches

Decay = Callable[[str], float]
"""Parameter path -> rate of its decoupled weight decay."""
# Names under `MODALITY/encoder/`, from the bottom up; everything else there is an embedding.
_STACKS = ("lower_layers", "layers")
_AFTER = "norm"


@dataclasses.dataclass(frozen=True)
class GroupConfig:
    """`config.optimizer.groups.NAME`.

    Attributes:
      pattern: regular expression of parameter paths such as `image/encoder/stem/kernel`, see
        `tree.matches`.
      rate: multiplier of the learning rate.
      layer_decay: further multiplier for every layer that lies above a parameter's own; 1 for none.
      clip: whether the group's gradients count for `config.optimizer.clip_norm` and are clipped.
      frozen_until: the parameters and their optimizer state do not change before this step; dropout
        and batch normalization act as in training from the start.
    """

    pattern: str = setting(pattern=True)
    rate: float = setting(1.0, above=0)
    layer_decay: float = setting(1.0, above=0, at_most=1)
    clip: bool = True
    frozen_until: int = setting(0, at_least=0)

    def multiplier(self, path: str, shapes: Mapping[str, Any]) -> Any:
        """Returns the multiplier of a parameter's rate: a float, or float32 [L, 1, ...] if stacked.

        Args:
          path: path of the parameter, such as `image/encoder/layers/query/kernel`.
          shapes: all arrays or their shapes, frozen ones included, by path.
        """
        modality, part, *names = path.split("/")
        if self.layer_decay == 1 or part != "encoder" or names[0] == _AFTER:
            return self.rate
        stacks = [f"{modality}/encoder/{stack}/" for stack in _STACKS]
        depths = [
            next((leaf.shape[0] for path, leaf in shapes.items() if path.startswith(stack)), 0)
            for stack in stacks
        ]
        if not any(depths):
            raise UserError(
                f"layer_decay={self.layer_decay} of config.optimizer.groups, {self.pattern!r}, is "
                f"for stacked layers, but {modality}/encoder has none: narrow the pattern, or "
                "remove layer_decay."
            )
        if names[0] not in _STACKS:
            return self.rate * self.layer_decay ** (sum(depths) + 1)
        stack = _STACKS.index(names[0])
        above = sum(depths[stack + 1 :])
        exponents = np.arange(above + depths[stack], above, -1, dtype=np.float32)
        rates = self.rate * np.float32(self.layer_decay) ** exponents
        return rates.reshape(-1, *[1] * (len(shapes[path].shape) - 1))


# The group of the parameters that no pattern matches.
OTHERS = GroupConfig(pattern="")


def assign_groups(
    groups: Mapping[str, GroupConfig], paths: Iterable[str]
) -> dict[str, GroupConfig]:
    """Returns the group of each parameter path: the first that matches, else `OTHERS`.

    Args:
      groups: `config.optimizer.groups`, in order; every pattern must match a path that is left.
      paths: paths of the trained parameters.
    """
    assigned = dict.fromkeys(paths, OTHERS)
    for name, group in groups.items():
        rest = [path for path, found in assigned.items() if found is OTHERS]
        matched = select(group.pattern, rest, f"config.optimizer.groups.{name}")
        assigned |= dict.fromkeys(matched, group)
    return assigned


def select(pattern: str, paths: Collection[str], where: str) -> list[str]:
    """Returns the paths that a regular expression of a config matches; it must match one.

    Args:
      pattern: see `tree.matches`.
      paths: paths of the trained parameters.
      where: place of the pattern in the config, for the error.
    """
    check_patterns(where, [pattern], paths)
    return [path for path in paths if matches([pattern], path)]


def is_stacked(path: str) -> bool:
    """Returns whether a parameter's first axis is the layer, one tensor after the other."""
    _, *names = path.split("/")
    return len(names) > 2 and names[0] == "encoder" and names[1] in _STACKS
