"""Reads the JSON files of runs, evaluations, indexes and models, any of which may be damaged."""

import math
from typing import Any

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text


def read_json(path: epath.Path, remedy: str) -> dict[str, Any]:
    """Returns the object in a file.

    Args:
      path: path of the file.
      remedy: the end of the error if it is damaged.
    """
    try:
        return parse_json_text(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{path} is damaged: it cannot be read as JSON ({error}): {remedy}"
        ) from error


def read_numbers(path: epath.Path, remedy: str) -> dict[str, float]:
    """Returns the numbers in a file by tag; null, an undefined number, becomes NaN.

    Args:
      path: path of the file.
      remedy: the end of the error if it is damaged.
    """
    return as_numbers(read_json(path, remedy))


def as_numbers(found: dict[str, Any]) -> dict[str, float]:
    """Does what `read_numbers` does, for an object of a file."""
    return {tag: math.nan if value is None else value for tag, value in found.items()}
