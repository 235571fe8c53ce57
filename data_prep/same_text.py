"""Copies of a text that differ only in spacing, case and punctuation, and equal contents."""

import hashlib
import re

_WORD = re.compile(r"[^\W_]+")


def text_key(text: str) -> str:
    """Returns the words of a text in lower case, equal for two copies of it."""
    return " ".join(_WORD.findall(text.lower()))


def content_hash(content: bytes) -> int:
    """Returns a 64-bit hash of a text or an image, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
