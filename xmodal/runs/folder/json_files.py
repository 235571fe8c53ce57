"""JSON files of a run's folder."""

import json
from typing import Any

from etils import epath

from xmodal.base.config import UserError


def read_json(path: epath.Path, remedy: str) -> dict[str, Any]:
    """Returns the object in a file.

    Args:
      path: path of the file.
      remedy: what to do if it is damaged, as the end of the error.

    Raises:
      UserError: the file is truncated or changed.
    """
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is damaged: it is not JSON ({error}): {remedy}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it holds a {type(found).__name__}: {remedy}")
    return found
