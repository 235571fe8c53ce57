"""Copies of a text that differ only in Unicode form, spacing, case and punctuation."""

import re
import unicodedata

# Letters and digits, and what is no letter to Python: vowel signs of many scripts, and emojis.
_WORD = re.compile(r"(?:[^\W_]|[^\x00-\u02ff\u2000-\u206f\u3000-\u303f\uff00-\uffff])+")


def text_key(text: str) -> str:
    """Returns the words of a text in lower case, equal for two copies of it."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", text).lower()))
