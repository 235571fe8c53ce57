"""Groups of trained parameters that differ in rate, clipping or the step they start at."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.train.tree import matches, top_levels


@dataclasses.dataclass(frozen=True)
class GroupConfig:
    """`config.optimizer.groups.NAME`.

    Attributes:
      pattern: regular expression of parameter paths such as `image/encoder/stem/kernel`, see
        `select`.
      rate: multiplier of the learning rate.
      layer_decay: further multiplier for every layer that lies above a parameter's own, see
        `layer_rates`; 1 for none.
      clip_norm: largest global norm of only this group's gradients; None shares
        `config.optimizer.clip_norm` with all other groups that set no norm.
      clip: whether the group is clipped at all; False keeps it out of every clipped norm.
      frozen_until: the parameters and their optimizer state do not change before this step; dropout
        and batch normalization act as in training from the start.
    """

    pattern: str = setting(pattern=True)
    rate: float = setting(1.0, above=0)
    layer_decay: float = setting(1.0, above=0, at_most=1)
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
      UserError: a group gets no parameter; see also `select`.
    """
    paths = list(paths)
    assigned: dict[str, str] = {}
    for name, group in groups.items():
        where = f"config.optimizer.groups.{name}.pattern={group.pattern!r}"
        matched = select(group.pattern, paths, where)
        fresh = [path for path in matched if path not in assigned]
        if not fresh:
            raise UserError(
                f"{where} matches only parameters of the groups before it, "
                f"{sorted({assigned[path] for path in matched})}; put it first, or remove it."
            )
        assigned |= dict.fromkeys(fresh, name)
    return {path: groups[assigned[path]] if path in assigned else OTHERS for path in paths}


def select(pattern: str, paths: Collection[str], where: str) -> list[str]:
    """Returns the paths that a regular expression matches from their start, see `tree.matches`.

    Args:
      pattern: the regular expression.
      paths: paths of the trained parameters.
      where: the pattern and its place in the config, for messages.

    Raises:
      UserError: it matches nothing, or is also found inside another path, which it was probably
        meant to match.
    """
    chosen = [path for path in paths if matches([pattern], path)]
    if not chosen:
        raise UserError(
            f"{where} matches no trained parameter from the start of its path; the trained "
            f"parameters are under {top_levels(paths)}."
        )
    for path in paths:
        if not matches([pattern], path) and re.search(pattern, path):
            raise UserError(
                f"{where} matches {chosen[0]!r} from its start, but is only found inside {path!r}; "
                "begin the parts of the pattern with '.*' to match both, or with '^' for the first "
                "alone."
            )
    return chosen
