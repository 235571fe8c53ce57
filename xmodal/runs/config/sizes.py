"""Settings that depend on the number of training examples, such as the batch size."""

import re
from collections.abc import Mapping
from typing import Any

from xmodal.base.config import UserError

_LATER = re.compile(r"(?P<value>.+?) from (?P<examples>\d+) examples")


def resolve_sizes(config: Any, examples: int, where: str = "config") -> Any:
    """Replaces every string with "from N examples" by the value that applies.

    "16; 32 from 500 examples; 64 from 5000 examples" is 16 for 499 examples and 32 for 500.

    Args:
      config: nested mappings, lists and tuples; mappings are returned as dicts.
      examples: examples per epoch.
      where: place of this part in the whole config, for errors.

    Raises:
      UserError: a later value lacks its number of examples, or the numbers are not ascending.
    """
    if isinstance(config, Mapping):
        return {
            key: resolve_sizes(value, examples, f"{where}.{key}") for key, value in config.items()
        }
    if isinstance(config, (list, tuple)):
        return type(config)(
            resolve_sizes(item, examples, f"{where}[{i}]") for i, item in enumerate(config)
        )
    if not isinstance(config, str) or not re.search(r";.* from \d+ examples", config):
        return config
    first, *later = (part.strip() for part in config.split(";"))
    chosen, before = first, 0
    for part in later:
        match = _LATER.fullmatch(part)
        if match is None or int(match["examples"]) <= before:
            raise UserError(
                f"{where} is {config!r}; it must be a string like '16; 32 from 500 examples; 64 "
                "from 5000 examples', with ascending numbers."
            )
        before = int(match["examples"])
        if examples >= before:
            chosen = match["value"]
    return _number(chosen)


def _number(text: str) -> int | float | str:
    """The string as a number if it is one, else unchanged."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
