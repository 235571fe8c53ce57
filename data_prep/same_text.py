"""Copies of a text that differ in spacing, case and punctuation only."""

import re

_WORD = re.compile(r"[^\W_]+")


def text_key(text: str) -> str:
    """Returns the words of a text in lower case, equal for two copies of it."""
    return " ".join(_WORD.findall(text.lower()))
