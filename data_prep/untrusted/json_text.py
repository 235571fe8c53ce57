"""JSON from elsewhere."""

import json
from typing import Any


def parse_json_text(text: str | bytes, **hooks: Any) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: the text, or its bytes.
      hooks: see `json.loads`.

    Raises:
      ValueError: it is not JSON, has a number of more than 4,300 digits, or nests too deep.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it nests too deep") from None
