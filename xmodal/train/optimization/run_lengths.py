"""Sizes and lengths of a run: numbers of steps, those in epochs, and those left to the dataset."""

import re
from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError

_LENGTH = re.compile(r"(\d+)|(\d+(?:\.\d+)?) epochs?")
# Also matches "three epochs" and "3 epocs", which are rejected instead of passed on.
_IN_EPOCHS = re.compile(r"\S+ epochs?|[\d.]+ e\w+")
# Keys of a config whose values are steps.
_LENGTHS = ("total_steps", "log_every", "every", "warmup_steps", "frozen_until", "start", "end")
UP_TO = "up to "
"""Prefix of a warm-up that is shorter in a short run, see `run_config.fill`."""

_AUTO = re.compile(r"auto(?:/([1-9]\d*))?")
# Smallest number of training examples -> value. A small dataset takes small batches, so that an
# epoch has enough updates, and more epochs.
_BATCH_SIZE = {0: 4, 32: 16, 200: 32, 2000: 64}
_EPOCHS = {
    "total_steps": {0: 60, 2000: 30, 50000: 10},
    "every": {0: 10, 2000: 3, 50000: 1},
}


def is_due(step: int, every: int, total_steps: int) -> bool:
    """Returns whether a periodic action is due at this step; it always is at the last one."""
    return step == total_steps or (every > 0 and step % every == 0)


def resolve_sizes(config: Mapping[str, Any], examples: int) -> dict[str, Any]:
    """Returns a config in which "auto" is replaced by the value for a number of examples.

    `batch_size`, `total_steps`, `checkpoint.every` and `evals.NAME.every` may be "auto":

    | examples | 1 | 32 | 200 | 2,000 | 50,000 |
    | --- | --- | --- | --- | --- | --- |
    | batch_size | 4 | 16 | 32 | 64 | 64 |
    | total_steps, in epochs | 60 | 60 | 60 | 30 | 10 |
    | every, in epochs | 10 | 10 | 10 | 3 | 1 |

    Of the numbers of epochs, "auto/3" is a third: projections of frozen towers are soon trained.

    Args:
      config: the root, or some of its sections, as nested dicts.
      examples: examples per epoch.
    """

    def largest(values: Mapping[int, int]) -> int:
        return values[max(least for least in values if least <= examples)]

    sized = {
        key: resolve_sizes(value, examples) if isinstance(value, Mapping) else value
        for key, value in config.items()
    }
    if sized.get("batch_size") == "auto":
        sized["batch_size"] = largest(_BATCH_SIZE)
    for key, epochs in _EPOCHS.items():
        if match := _AUTO.fullmatch(str(sized.get(key))):
            sized[key] = f"{largest(epochs) / int(match[1] or 1):.4g} epochs"
    return sized


def resolve_epochs(config: Any, steps_per_epoch: float, where: str = "config") -> Any:
    """Returns a nested config with lengths such as "3 epochs" replaced by their steps.

    Lengths are the values of some keys, such as `every`, and keys. Other values are not: a
    learning rate of "3 epochs" stays, and is an error when it is read.

    Args:
      config: nested mappings, lists and tuples; mappings are returned as dicts. A key in epochs
        becomes its step as a string, since keys of a config saved as JSON are strings.
      steps_per_epoch: full batches in one pass over the training data.
      where: place of this part in the whole config, for errors.
    """
    if isinstance(config, (list, tuple)):
        return type(config)(
            resolve_epochs(item, steps_per_epoch, f"{where}[{i}]") for i, item in enumerate(config)
        )
    if not isinstance(config, Mapping):
        return config
    resolved = {}
    for key, value in config.items():
        place = f"{where}.{key}"
        if _IN_EPOCHS.fullmatch(str(key)):
            key = str(_to_steps(key, steps_per_epoch, place))
        is_length = key in _LENGTHS and isinstance(value, str)
        read = _resolve_length if is_length else resolve_epochs
        resolved[key] = read(value, steps_per_epoch, place)
    return resolved


def _resolve_length(value: str, steps_per_epoch: float, where: str) -> int | str:
    if value.startswith(UP_TO):
        longest = value.removeprefix(UP_TO)
        return f"{UP_TO}{_to_steps(longest, steps_per_epoch, where, may_vanish=True)}"
    # A number is a string where it replaces one, such as "3 epochs", on the command line.
    is_length = value.isdecimal() or _IN_EPOCHS.fullmatch(value)
    return _to_steps(value, steps_per_epoch, where) if is_length else value


def _to_steps(value: str, steps_per_epoch: float, where: str, *, may_vanish: bool = False) -> int:
    """Returns "7" or "0.5 epochs" in steps; may it round to zero steps?"""
    match = _LENGTH.fullmatch(value)
    if match is None:
        raise UserError(f"{where} is {value!r}; it must be a step or a string like '3 epochs'.")
    if match[1]:
        return int(value)
    steps = round(float(match[2]) * steps_per_epoch)
    if float(match[2]) and not steps and not may_vanish:
        raise UserError(
            f"{where} is {value!r}, less than one step: an epoch has {steps_per_epoch:g}; "
            "use more epochs, or a number of steps."
        )
    return steps
