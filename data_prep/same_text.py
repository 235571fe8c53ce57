"""Copies of a text that differ in Unicode form, spacing, case and punctuation; equal contents."""

import hashlib
import re
import unicodedata

# Letters and digits, and what is no letter to Python: vowel signs of many scripts, and emojis.
_OTHER = r"\x00-\u02ff\u2000-\u206f\u3000-\u303f\ud800-\udfff\uff00-\uffff"
_WORD = re.compile(rf"(?:[^\W_]|[^{_OTHER}])+")


def text_key(text: str) -> str:
    """Returns the words of a text in lower case, equal for two copies of it."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", text).lower()))


def content_hash(content: bytes) -> int:
    """Returns a 64-bit hash of a text or an image, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
