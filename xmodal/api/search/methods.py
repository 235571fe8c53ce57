"""Kinds of items and methods of search, by name; imports nothing slow."""

from xmodal.core.errors import UserError

SIDES = {"image": "image", "caption": "text"}
KINDS = tuple(SIDES)
METHODS = ("auto", "exact", "approximate")


def check_method(method: str, recall: float) -> None:
    """Raises an error for an invalid method or recall.

    Raises:
      UserError: names the value.
    """
    if method not in METHODS:
        raise UserError(f"method is {method!r}; known: {list(METHODS)}.")
    if not 0 < recall <= 1:
        raise UserError(f"recall is {recall}; it must be more than 0 and at most 1.")
