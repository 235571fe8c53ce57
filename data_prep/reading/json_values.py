"""Checks of the types of parsed JSON values.

`int(1.5)` and `int(True)` are 1 and `str(None)` is "None", so a damaged file would yield ids and
texts that look valid.
"""

from typing import Any


def whole_number(value: Any) -> int:
    """Returns the value, which must be a non-negative integer.

    Raises:
      TypeError: it is not.
    """
    if type(value) is not int or value < 0:  # True is an int too.
        raise TypeError(f"{_shown(value)} is not a non-negative integer")
    return value


def text(value: Any) -> str:
    """Returns the value, which must be a string.

    Raises:
      TypeError: it is not.
    """
    if not isinstance(value, str):
        raise TypeError(f"{_shown(value)} is not a string")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 128:  # Too long to print.
        return "a huge number"
    return f"{value!r:.60}"
