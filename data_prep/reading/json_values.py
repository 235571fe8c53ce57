"""Checks of the types of parsed JSON values.

`int(1.5)` and `int(True)` are 1 and `str(None)` is "None": a damaged file would give ids and texts
that look sound.
"""

from typing import Any


def whole_number(value: Any) -> int:
    """Returns the value, which must be a whole number from 0 on.

    Raises:
      TypeError: it is none.
    """
    if type(value) is not int or value < 0:  # True is an int, too
        raise TypeError(f"{_shown(value)} is no whole number from 0 on")
    return value


def text(value: Any) -> str:
    """Returns the value, which must be a text.

    Raises:
      TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{_shown(value)} is no text")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print the longest
        return "a huge number"
    return f"{value!r:.60}"
