"""JSON from elsewhere."""

import json
import reprlib
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


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object; a value of `object_pairs_hook`, see `json.loads`.

    Raises:
      ValueError: a key occurs twice; a dict would keep only the last value.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = max(keys, key=keys.count)
        raise ValueError(f"the key {twice!r} occurs twice in the object {reprlib.repr(found)}")
    return found
