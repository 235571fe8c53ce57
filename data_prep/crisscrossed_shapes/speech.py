"""Phrases for items and backgrounds."""

from collections.abc import Sequence

import numpy as np

from data_prep.crisscrossed_shapes import lexicon
from data_prep.crisscrossed_shapes.scene_graph import Background, SceneItem

_HABIT = 0.5  # probability that a describer uses the favorite word


class Speaker:
    """A describer's choice of words.

    Args:
      habit: number of the describer; describers with different habits favor different words.
      rng: source of every choice.
    """

    def __init__(self, habit: int, rng: np.random.Generator) -> None:
        self._habit = habit
        self._rng = rng

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._rng.random() < probability

    def pick(self, options: Sequence[str]) -> str:
        """One of the options, drawn uniformly."""
        return options[int(self._rng.integers(len(options)))]

    def shuffled(self, items: Sequence[SceneItem]) -> list[SceneItem]:
        """The items in a random order."""
        return [items[k] for k in self._rng.permutation(len(items))]

    def word(self, words: Sequence[str]) -> str:
        """One of several words for the same thing, often the describer's favorite."""
        if self.chance(_HABIT):
            return words[self._habit % len(words)]
        return self.pick(words)

    def words(self, item: SceneItem, plural: bool = False) -> str:
        """Size, color and shape, if mentioned, without article: `big red star`."""
        noun = self.word(lexicon.NOUNS[item.shape])
        if plural:
            noun += "es" if noun.endswith(("s", "x")) else "s"
        size = [self.word(lexicon.SIZES[item.size])] if item.size else []
        color = [self.word(lexicon.COLORS[item.color])] if item.color else []
        return " ".join([*size, *color, noun])

    def phrase(self, item: SceneItem) -> str:
        """The words with article and, if mentioned, place: `a big red star at the top`."""
        place = (item.row, item.column)
        where = [self.word(lexicon.PLACES[place])] if any(place) else []
        return " ".join([with_article(self.words(item)), *where])

    def number(self, item: SceneItem, number: int) -> str:
        """Several items with the same description: `two red stars`."""
        if number == 1:
            return self.pick((with_article(self.words(item)), f"one {self.words(item)}"))
        return f"{lexicon.NUMBERS[number]} {self.words(item, plural=True)}"

    def backdrop(self, background: Background) -> str:
        """The background, as far as mentioned, without article: `striped pale blue wall`."""
        pattern = [self.word(lexicon.PATTERNS[background.pattern])] if background.pattern else []
        color = [self.word(lexicon.BACKGROUND_COLORS[background.color])] if background.color else []
        return " ".join([*pattern, *color, self.word(lexicon.BACKDROPS)])


def with_article(words: str) -> str:
    """Puts the indefinite article before the words."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def joined(phrases: Sequence[str]) -> str:
    """An enumeration: `a, b and c`."""
    *front, last = phrases
    return f"{', '.join(front)} and {last}" if front else last
