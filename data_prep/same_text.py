"""Copies of a text that differ in Unicode form, spacing, case and punctuation; equal contents."""

import functools
import hashlib
import unicodedata


def text_key(text: str) -> str:
    """Returns the words of a text in lower case, equal for two copies of it."""
    return " ".join("".join(map(_shown, unicodedata.normalize("NFC", text).lower())).split())


@functools.cache
def _shown(char: str) -> str:
    """Returns a letter, a digit, a vowel sign or an emoji itself, and a blank for other signs."""
    category = unicodedata.category(char)
    return char if category[0] in "LMN" or category == "So" else " "


def content_hash(content: bytes) -> int:
    """Returns a 64-bit hash of a text or an image, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
