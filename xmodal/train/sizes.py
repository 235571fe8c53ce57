"""Numbers that a config leaves to the size of its dataset with the value "auto"."""

import re
from collections.abc import Mapping
from typing import Any

_AUTO = re.compile(r"auto(?:/([1-9]\d*))?")
# Smallest number of training examples -> value. A small dataset takes small batches, so that an
# epoch has enough updates, and more epochs.
_BATCH_SIZE = {0: 4, 32: 16, 200: 32, 2000: 64}
_EPOCHS = {
    "total_steps": {0: 60, 2000: 30, 50000: 10},
    "every": {0: 10, 2000: 3, 50000: 1},
}


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
    sized = dict(config)
    if config.get("batch_size") == "auto":
        sized["batch_size"] = _largest(_BATCH_SIZE, examples)
    for key, epochs in _EPOCHS.items():
        if match := _AUTO.fullmatch(str(config.get(key))):
            sized[key] = f"{_largest(epochs, examples) / int(match[1] or 1):.4g} epochs"
    if isinstance(config.get("checkpoint"), Mapping):
        sized["checkpoint"] = resolve_sizes(config["checkpoint"], examples)
    if isinstance(config.get("evals"), Mapping):
        sized["evals"] = {
            name: resolve_sizes(section, examples) if isinstance(section, Mapping) else section
            for name, section in config["evals"].items()
        }
    return sized


def _largest(values: Mapping[int, int], examples: int) -> int:
    """The value of the largest number of examples that is reached."""
    return values[max(least for least in values if least <= examples)]
