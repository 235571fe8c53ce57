"""Numbers that a config leaves to the size of its dataset with the value "auto"."""

from collections.abc import Mapping
from typing import Any

AUTO = "auto"
# Smallest number of training examples -> value. A small dataset takes small batches, so that an
# epoch has enough updates, and more epochs.
_BATCH_SIZE = {0: 4, 32: 16, 200: 32, 2000: 64}
_TOTAL_STEPS = {0: "60 epochs", 2000: "30 epochs", 50000: "10 epochs"}
_EVERY = {0: "10 epochs", 2000: "3 epochs", 50000: "1 epochs"}


def resolve_sizes(config: Mapping[str, Any], examples: int) -> dict[str, Any]:
    """Returns a config in which "auto" is replaced by the value for a number of examples.

    `batch_size`, `total_steps`, `checkpoint.every` and `evals.NAME.every` may be "auto":

    | examples | 1 | 32 | 200 | 2,000 | 50,000 |
    | --- | --- | --- | --- | --- | --- |
    | batch_size | 4 | 16 | 32 | 64 | 64 |
    | total_steps, in epochs | 60 | 60 | 60 | 30 | 10 |
    | every, in epochs | 10 | 10 | 10 | 3 | 1 |

    Args:
      config: the root, or some of its sections, as nested dicts.
      examples: examples per epoch.
    """
    sized = dict(config)
    _choose(sized, "batch_size", _BATCH_SIZE, examples)
    _choose(sized, "total_steps", _TOTAL_STEPS, examples)
    if isinstance(config.get("checkpoint"), Mapping):
        sized["checkpoint"] = dict(config["checkpoint"])
        _choose(sized["checkpoint"], "every", _EVERY, examples)
    if isinstance(config.get("evals"), Mapping):
        sized["evals"] = dict(config["evals"])
        for name, section in sized["evals"].items():
            if isinstance(section, Mapping):
                sized["evals"][name] = dict(section)
                _choose(sized["evals"][name], "every", _EVERY, examples)
    return sized


def _choose(section: dict[str, Any], key: str, values: Mapping[int, Any], examples: int) -> None:
    if section.get(key) == AUTO:
        section[key] = values[max(least for least in values if least <= examples)]
