"""Groups of trained parameters that differ in rate, clipping or the step they start at."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from xmodal.config import UserError, setting
from xmodal.training.tree import top_levels


@dataclasses.dataclass(frozen=True)
class GroupConfig:
    """`config.optimizer.groups.NAME`.

    Attributes:
      pattern: regular expression searched in parameter paths such as `image/encoder/stem/kernel`.
      rate: multiplier of the learning rate.
      clip_norm: largest global norm of only this group's gradients; None shares
        `config.optimizer.clip_norm` with all other groups that set no norm.
      clip: whether the group is clipped at all; False keeps it out of every clipped norm.
      frozen_until: the parameters and their optimizer state do not change before this step; dropout
        and batch normalization act as in training from the start.
    """

    pattern: str = setting(pattern=True)
    rate: float = setting(1.0, above=0)
    clip_norm: float | None = setting(None, above=0)
    clip: bool = True
    frozen_until: int = setting(0, at_least=0)


# The group of the parameters that no pattern matches.
OTHERS = GroupConfig(pattern="")


def assign_groups(
    groups: Mapping[str, GroupConfig], paths: Iterable[str]
) -> dict[str, GroupConfig]:
    """Returns the group of each parameter path: the first that matches, else `OTHERS`.

    Args:
      groups: `config.optimizer.groups`, in order.
      paths: paths of the trained parameters.

    Raises:
      UserError: a group gets no parameter.
    """
    paths = list(paths)
    assigned: dict[str, str] = {}
    for name, group in groups.items():
        where = f"config.optimizer.groups.{name}.pattern={group.pattern!r}"
        matched = [path for path in paths if search(group.pattern, path, where)]
        if not matched:
            raise UserError(f"{where} matches no trained parameter; {describe_paths(paths)}")
        fresh = [path for path in matched if path not in assigned]
        if not fresh:
            raise UserError(
                f"{where} matches only parameters of the groups before it, "
                f"{sorted({assigned[path] for path in matched})}; put it first, or remove it."
            )
        assigned |= dict.fromkeys(fresh, name)
    return {path: groups[assigned[path]] if path in assigned else OTHERS for path in paths}


def search(pattern: str, path: str, where: str) -> bool:
    """Returns whether a regular expression is found in a path.

    Raises:
      UserError: the pattern is not a valid regular expression.
    """
    try:
        return re.search(pattern, path) is not None
    except re.error as error:
        raise UserError(f"{where} is not a valid regular expression: {error}.") from None


def describe_paths(paths: Iterable[str]) -> str:
    """Returns a sentence that lists the first two levels of parameter paths."""
    return f"the trained parameters are under {top_levels(paths)}."
