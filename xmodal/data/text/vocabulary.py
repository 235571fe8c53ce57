"""Vocabularies of words, learned from texts."""

import collections
from collections.abc import Callable, Iterable, Sequence

PAD, START, END, UNKNOWN = WORD_TOKENS = ("<pad>", "<start>", "<end>", "<unk>")
"""The first tokens of every learned word vocabulary, ids 0 to 3 (as in VSE++, PVSE and PCME)."""


MASK = "<mask>"
"""The last word of a learned vocabulary whose captions are masked at random (VSE-infinity)."""


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
