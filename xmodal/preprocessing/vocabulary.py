"""Vocabularies: the tokens of a tokenizer in the order of their ids."""

import collections
import os
from collections.abc import Callable, Iterable, Sequence

from etils import epath

from xmodal.base.config import UserError

PAD, START, END, UNKNOWN = WORD_TOKENS = ("<pad>", "<start>", "<end>", "<unk>")
"""The first tokens of every learned word vocabulary, ids 0 to 3 (as in VSE++, PVSE and PCME)."""


MASK = "<mask>"
"""The last word of a learned vocabulary whose captions are masked at random (VSE-infinity)."""


def read_vocabulary(path: epath.PathLike) -> list[str]:
    """Returns the tokens of a vocab.txt: one per line, with ids counted from 0.

    Raises:
      UserError: there is no such file, or it is not a list of tokens.
    """
    given, path = os.fspath(path), epath.Path(path)
    if not path.is_file():
        raise UserError(
            f"config.data.text.vocabulary names {given!r}, which is not a file. Use the vocab.txt "
            "of the checkpoint, or '' to learn a vocabulary from the training captions."
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a vocab.txt: {error}") from error
    tokens = split_vocabulary(text)
    if len(tokens) < 2:
        raise UserError(f"{path} is not a vocab.txt with one token per line: it has one line.")
    return tokens


def split_vocabulary(text: str) -> list[str]:
    """Returns the tokens of the content of a vocab.txt."""
    return [token.strip() for token in text.rstrip("\n").split("\n")]


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
