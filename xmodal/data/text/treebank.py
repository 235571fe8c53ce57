"""Splits texts into words with nltk's two Treebank tokenizers, sentence by sentence.

Both expect one sentence at a time: they separate a period only from the last word. nltk's
`word_tokenize` finds the sentences with a Punkt model trained on English, which must be
downloaded. Here, Punkt is untrained and needs no data: it knows no abbreviations, so "Mr." ends a
sentence and becomes two tokens, "Mr" and ".". On texts without abbreviations, "nltk" gives the
tokens of `word_tokenize`.
"""

import functools
import sys
from typing import Any

# Texts whose words are cached: all captions of Flickr8k or of a quick experiment; about 25 MB.
_KEPT_TEXTS = 2**16


def split_ptb(text: str) -> list[str]:
    """Returns the Penn Treebank tokens of a text (nltk's `TreebankWordTokenizer`)."""
    return list(_split(text, 1))


def split_nltk(text: str) -> list[str]:
    """Returns the tokens of a text from nltk's `NLTKWordTokenizer`, as in `word_tokenize`."""
    return list(_split(text, 2))


@functools.lru_cache(_KEPT_TEXTS)
def _split(text: str, number: int) -> tuple[str, ...]:
    """The words from one of `_tokenizers`: 0.2 ms per caption, needed again in every epoch."""
    tokenizer = _tokenizers()[number]
    words = (word for each in _sentences(text) for word in tokenizer.tokenize(each))
    return tuple(map(sys.intern, words))


def _sentences(text: str) -> list[str]:
    # Punkt splits only after these characters; most captions have them only at the end.
    if any(sign in text[:-1] for sign in ".?!"):
        return _tokenizers()[0].tokenize(text)
    return [text]


@functools.cache
def _tokenizers() -> tuple[Any, Any, Any]:
    """Returns nltk's sentence, Treebank and default tokenizers; importing nltk takes seconds."""
    from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer, TreebankWordTokenizer

    return PunktSentenceTokenizer(), TreebankWordTokenizer(), NLTKWordTokenizer()
