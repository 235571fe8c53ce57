"""JSON from elsewhere."""

import json
import reprlib
from collections.abc import Callable
from typing import Any

Pairs = list[tuple[str, Any]]


def parse_json_text(
    text: str | bytes,
    *,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
    object_pairs_hook: Callable[[Pairs], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: the text, or its bytes.
      object_hook: see `json.loads`.
      object_pairs_hook: the same, of objects that may have a key twice.
      parse_constant: see `json.loads`.

    Raises:
      ValueError: it is not JSON, has a number of more than 4,300 digits, nests too deep, or an
        object has a key twice, of which a dict would keep only the last value.
    """

    def read_object(pairs: Pairs) -> Any:
        found = _unique_keys(pairs)
        return found if object_hook is None else object_hook(found)

    hook = object_pairs_hook or (_unique_keys if object_hook is None else read_object)
    try:
        return json.loads(text, object_pairs_hook=hook, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it nests too deep") from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"it is not UTF-8, {error.reason} at byte {error.start}; save it as UTF-8"
        ) from error


def _unique_keys(pairs: Pairs) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = max(keys, key=keys.count)
        raise ValueError(f"the key {twice!r} occurs twice in the object {reprlib.repr(found)}")
    return found
