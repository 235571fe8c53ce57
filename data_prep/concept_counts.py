"""Chooses the concepts that captions name most often, and counts how often two occur together."""

import collections
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

# Words that name no object, motion or property, although WordNet lists some of them ("a" is a
# vitamin, "in" Indiana).
_FUNCTION_WORDS = """
    a about above across after against all along also am among an and another any are around as at
    away back be because been before behind being below beneath beside between beyond both but by
    can do does doing down during each either every few for from had has have having he her here
    him his how i if in inside into is it its itself just like many more most much near next no
    not of off on onto or other others out outside over own past she so some such than that the
    their them themselves then there these they this those through to together too toward towards
    under underneath until up upon very via was we were what when where which while who whose will
    with within without you your
"""
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
_NO_CONCEPTS = frozenset(_WORD.findall(_FUNCTION_WORDS))


def split_caption(caption: str) -> list[str]:
    """Returns the words of a caption in lower case that may name a concept."""
    words = _WORD.findall(caption.lower())
    return [word for word in words if len(word) > 1 and word not in _NO_CONCEPTS]


def count_concepts(
    captions: Iterable[str],
    *,
    lemmatize: Callable[[str], str] = str,
    count: int = 300,
    concepts: Sequence[str] = (),
    is_concept: Callable[[str], bool] = bool,
) -> dict[str, Any]:
    """Returns the content of a concept file, as plain data.

    Args:
      captions: captions of the training split.
      lemmatize: function from a word to its lemma; by default the word itself.
      count: number of concepts to choose, the lemmas in most captions; ties are in alphabetical
        order.
      concepts: words to use instead, in this order; a word of a caption names the first one that
        has its lemma.
      is_concept: which lemmas may be chosen; by default all.

    Returns:
      `concepts`, K words; `forms`, each word of the captions that names a concept with the number
      of that concept; `captions`, K numbers of captions that name it; `joint`, rows
      [k, l, number of captions that name both] with k < l and a number above 0.
    """
    words = [split_caption(caption) for caption in captions]
    lemmas = {word: lemmatize(word) for word in sorted({w for each in words for w in each})}
    if not concepts:
        concepts = _choose(words, lemmas, count, is_concept)
    # The first of several concepts with one lemma counts.
    numbers = {lemmatize(word): k for k, word in reversed(list(enumerate(concepts)))}
    forms = {word: numbers[lemma] for word, lemma in lemmas.items() if lemma in numbers}
    single: collections.Counter[int] = collections.Counter()
    joint: collections.Counter[tuple[int, int]] = collections.Counter()
    for each in words:
        found = sorted({forms[word] for word in each if word in forms})
        single.update(found)
        joint.update(itertools.combinations(found, 2))
    return {
        "concepts": list(concepts),
        "forms": forms,
        "captions": [single[k] for k in range(len(concepts))],
        "joint": [[*pair, number] for pair, number in sorted(joint.items())],
    }


def _choose(
    words: Iterable[Collection[str]],
    lemmas: dict[str, str],
    count: int,
    is_concept: Callable[[str], bool],
) -> list[str]:
    named = collections.Counter(
        lemma for each in words for lemma in {lemmas[word] for word in each}
    )
    kept = [lemma for lemma in named if is_concept(lemma)]
    return sorted(kept, key=lambda lemma: (-named[lemma], lemma))[:count]
