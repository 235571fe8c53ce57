"""Settings that depend on the number of training examples, such as the size of a batch."""

import re
from collections.abc import Mapping
from typing import Any

from xmodal.config import UserError

_LATER = re.compile(r"(?P<value>.+?) from (?P<examples>\d+) examples")


def resolve_sizes(config: Any, examples: int, where: str = "config") -> Any:
    """Returns a nested config in which every text with "from N examples" is one of its values.

    "16; 32 from 500 examples; 64 from 5000 examples" is 16 for 499 examples and 32 for 500.

    Args:
      config: nested mappings, lists and tuples; mappings come back as dicts.
      examples: of an epoch.
      where: place of the config in the whole, for errors.

    Raises:
      UserError: a later value does not say from how many examples on, or numbers do not ascend.
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
                f"{where} is {config!r}; it has to be a text like '16; 32 from 500 examples; 64 "
                "from 5000 examples', with ascending numbers."
            )
        before = int(match["examples"])
        if examples >= before:
            chosen = match["value"]
    return _number(chosen)


def _number(text: str) -> int | float | str:
    """The number that a text is, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
