"""Splits texts into words, and learns vocabularies of words.

nltk's two Treebank tokenizers expect one sentence at a time: they separate a period only from the
last word. nltk's `word_tokenize` finds the sentences with a Punkt model trained on English, which
must be downloaded. Here, Punkt is untrained and needs no data: it knows no abbreviations, so "Mr."
ends a sentence and becomes two tokens, "Mr" and ".". On texts without abbreviations, `split_nltk`
gives the tokens of `word_tokenize`.
"""

import collections
import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

PAD, START, END, UNKNOWN = WORD_TOKENS = ("<pad>", "<start>", "<end>", "<unk>")
"""The first tokens of every learned word vocabulary, ids 0 to 3 (as in VSE++, PVSE and PCME)."""
MASK = "<mask>"
"""The last word of a learned vocabulary whose captions are masked at random (VSE-infinity)."""
# Texts whose words are cached: all captions of Flickr8k or of a quick experiment; about 25 MB.
_KEPT_TEXTS = 2**16

# In the style of the Penn Treebank, as the corpora of published vectors were split: "don't" is
# do + n't, "dog's" is dog + 's. Unlike nltk's Treebank tokenizers it separates every period and
# keeps quotation marks and brackets as they are written, as the tables list them.
_WORD = re.compile(
    r"""
    \w+?(?=n't\b) | n't\b | '(?:s|m|d|re|ve|ll)\b
    | \d+(?:[.,:]\d+)+ | \w+(?:-\w+)* | \.{2,} | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def split_words(text: str) -> list[str]:
    """Returns the words and punctuation marks of a text, with their original case."""
    return _WORD.findall(text.replace("\u2019", "'"))


# A backslash and a letter, two characters: CITE's and Clue's files have literal escapes.
_SPACED = re.compile(r'([,.;()?!&%:*"])')


def split_at_spaces(text: str) -> list[str]:
    """Splits a text at spaces and around punctuation, as CMCM's authors do.

    Consecutive spaces count as one; the two characters "\\t" are a separate space, which gives
    empty pieces that are words like others; "\\n" splits like a space. Line breaks and other kinds
    of space, which their texts do not have, are spaces: a vocabulary has one word per line.
    """
    text = _SPACED.sub(r" \1 ", text).replace(r"\xa0", "")
    return re.split(r"\\n| ", re.sub(r"\s+|\\t", " ", text))


def cut_text(text: str, *, separators: str, max_words: int) -> str:
    """Returns a text with spaces in place of some characters, and only its first words.

    Args:
      text: any text.
      separators: these characters become spaces.
      max_words: number of words, separated by spaces, that are kept; 0 for all.
    """
    if separators:
        text = text.translate(dict.fromkeys(map(ord, separators), " "))
    return " ".join(text.split()[:max_words]) if max_words else text


def find_row(rows: Mapping[str, int], word: str) -> int | None:
    """Returns the row of a word as written, else in lower case; None if neither is known."""
    row = rows.get(word)
    return rows.get(word.lower()) if row is None else row


def split_ptb(text: str) -> list[str]:
    """Returns the Penn Treebank tokens of a text (nltk's `TreebankWordTokenizer`)."""
    return list(_split(text, 1))


def split_nltk(text: str) -> list[str]:
    """Returns the tokens of a text from nltk's `NLTKWordTokenizer`, as in `word_tokenize`."""
    return list(_split(text, 2))


@functools.lru_cache(_KEPT_TEXTS)
def _split(text: str, number: int) -> tuple[str, ...]:
    """The words from one of `_tokenizers`: 0.2 ms per caption, needed again in every epoch."""
    punkt, tokenizer = _tokenizers()[0], _tokenizers()[number]
    # Punkt splits only after these characters; most captions have them only at the end.
    has_several = any(sign in text[:-1] for sign in ".?!")
    sentences = punkt.tokenize(text) if has_several else [text]
    return tuple(sys.intern(word) for each in sentences for word in tokenizer.tokenize(each))


@functools.cache
def _tokenizers() -> tuple[Any, Any, Any]:
    """Returns nltk's sentence, Treebank and default tokenizers; importing nltk takes seconds."""
    from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer, TreebankWordTokenizer

    return PunktSentenceTokenizer(), TreebankWordTokenizer(), NLTKWordTokenizer()


def learn_words(
    texts: Iterable[str], split: Callable[[str], Sequence[str]], min_count: int
) -> list[str]:
    """Returns `WORD_TOKENS` and the words of texts, the most frequent first.

    Args:
      texts: training captions.
      split: function of a text that returns its words.
      min_count: words that occur less often are left out; ties are in alphabetical order.
    """
    counts = collections.Counter(word for text in texts for word in split(text))
    kept = [word for word, count in counts.items() if count >= min_count]
    kept = [word for word in kept if word not in WORD_TOKENS]
    return [*WORD_TOKENS, *sorted(kept, key=lambda word: (-counts[word], word))]
