"""JSON from elsewhere."""

import json
import reprlib
from collections.abc import Callable
from typing import Any


def parse_json_text(
    text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """Returns the value of a JSON text; see `json.loads`.

    Raises:
      ValueError: it is not JSON, or an object has a key twice.
    """

    def read_object(pairs: list[tuple[str, Any]]) -> Any:
        found, keys = dict(pairs), [key for key, _ in pairs]
        if len(found) < len(keys):
            twice = max(keys, key=keys.count)
            raise ValueError(f"the key {twice!r} occurs twice in the object {reprlib.repr(found)}")
        return found if object_hook is None else object_hook(found)

    return json.loads(text, object_pairs_hook=read_object)
