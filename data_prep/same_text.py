"""Copies of a text that differ only in spacing, case and punctuation."""

import re

_WORD = re.compile(r"[^\W_]+")


def text_key(text: str) -> str:
    """Returns the words of a text in lower case, equal for two copies of it."""
    return " ".join(_WORD.findall(text.lower()))
