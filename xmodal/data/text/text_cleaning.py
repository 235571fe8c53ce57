"""Cleans texts for SentencePiece and tokenizer.json."""

import string
from collections.abc import Callable

from xmodal.data.text.text_config import TextConfig

_WITHOUT_PUNCTUATION = str.maketrans("_", " ", string.punctuation.replace("_", ""))


def text_cleaner(config: TextConfig) -> Callable[[str], str]:
    """Returns the function that cleans a text as the config says."""

    def clean(text: str) -> str:
        text = canonicalize(text) if config.canonicalize else text
        return text.lower() if config.lower_case else text

    return clean


def canonicalize(text: str) -> str:
    """Returns a text without ASCII punctuation, with single blanks between words.

    Follows `canonicalize_text` of google-research/big_vision, which makes a blank of `_`.
    """
    return " ".join(text.translate(_WITHOUT_PUNCTUATION).split())
