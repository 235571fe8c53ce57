"""JSON from elsewhere."""

import json
import reprlib
from collections.abc import Callable
from typing import Any


def parse_json_text(
    text: str | bytes, *, object_hook: Callable[[dict], Any] | None = None, **hooks: Any
) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: the text, or its bytes.
      object_hook: see `json.loads`.
      **hooks: see `json.loads`; `object_pairs_hook` may accept a key that occurs twice.

    Raises:
      ValueError: it is not JSON, or an object has a key twice.
    """

    def read_object(pairs: list[tuple[str, Any]]) -> Any:
        found = _unique_keys(pairs)
        return found if object_hook is None else object_hook(found)

    try:
        return json.loads(text, **{"object_pairs_hook": read_object, **hooks})
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = max(keys, key=keys.count)
        raise ValueError(f"the key {twice!r} occurs twice in the object {reprlib.repr(found)}")
    return found
