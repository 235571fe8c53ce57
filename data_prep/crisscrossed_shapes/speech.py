"""The words that describers use for shapes, colors, sizes, places and backgrounds, and phrases.

Keys of the tables are the values of the scene graph; the first word of every row is the plain one.
"""

from collections.abc import Sequence

import numpy as np

from data_prep.crisscrossed_shapes.scene_graph import Background, SceneItem

NOUNS = {
    "circle": ("circle", "disc", "ball", "round spot"),
    "square": ("square", "box", "block", "tile"),
    "triangle": ("triangle", "wedge", "pyramid", "three-sided figure"),
    "star": ("star", "five-pointed star", "starfish shape", "pentagram"),
    "heart": ("heart", "love symbol", "valentine", "love heart"),
    "cross": ("cross", "plus sign", "plus", "plus symbol"),
    "ring": ("ring", "hoop", "donut", "loop"),
    "moon": ("moon", "crescent", "half moon", "sickle"),
    "diamond": ("diamond", "rhombus", "lozenge", "kite"),
    "": ("shape", "figure", "object", "thing"),
}
COLORS = {
    "red": ("red", "crimson", "scarlet"),
    "orange": ("orange", "tangerine", "amber"),
    "yellow": ("yellow", "golden", "lemon"),
    "green": ("green", "emerald", "leaf-green"),
    "blue": ("blue", "navy", "cobalt"),
    "purple": ("purple", "violet", "plum"),
    "pink": ("pink", "magenta", "rose-coloured"),
    "brown": ("brown", "chocolate", "coffee-coloured"),
    "black": ("black", "jet-black", "inky"),
    "white": ("white", "snowy", "chalky"),
}
SIZES = {
    "small": ("small", "little", "tiny"),
    "medium": ("medium-sized", "mid-sized", "average-sized"),
    "large": ("large", "big", "huge"),
}
BACKGROUND_COLORS = {
    "white": ("white", "bright", "blank white"),
    "black": ("black", "dark", "night-black"),
    "grey": ("grey", "gray", "silvery"),
    "beige": ("beige", "sandy", "cream"),
    "pale blue": ("pale blue", "light blue", "sky blue"),
    "pale green": ("pale green", "light green", "mint"),
    "pale pink": ("pale pink", "light pink", "blush"),
}
PATTERNS = {
    "plain": ("plain", "solid", "even"),
    "striped": ("striped", "banded", "lined"),
    "dotted": ("dotted", "spotted", "speckled"),
    "checked": ("checked", "chequered", "checkerboard"),
}
BACKDROPS = ("background", "backdrop", "surface", "wall")
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}

# By (row, column); "" is the part that the phrase omits.
PLACES = {
    ("top", "left"): ("in the top left corner", "at the upper left", "top left"),
    ("top", "center"): ("at the top in the middle", "at the top centre", "centred near the top"),
    ("top", "right"): ("in the top right corner", "at the upper right", "top right"),
    ("middle", "left"): ("halfway down the left side", "at the middle left", "middle left"),
    ("middle", "center"): ("in the middle", "in the very centre", "dead centre"),
    ("middle", "right"): ("halfway down the right side", "at the middle right", "middle right"),
    ("bottom", "left"): ("in the bottom left corner", "at the lower left", "bottom left"),
    ("bottom", "center"): ("at the bottom in the middle", "at the bottom centre", "low down in the centre"),  # noqa: E501
    ("bottom", "right"): ("in the bottom right corner", "at the lower right", "bottom right"),
    ("top", ""): ("at the top", "near the upper edge", "high up"),
    ("bottom", ""): ("at the bottom", "near the lower edge", "low down"),
    ("", "left"): ("on the left", "on the left side", "towards the left"),
    ("", "right"): ("on the right", "on the right side", "towards the right"),
}  # fmt: skip

# The relation of the first item of a pair to the second, and the word for the opposite.
RELATIONS = {
    "left of": ("to the left of", "left of", "on the left-hand side of"),
    "right of": ("to the right of", "right of", "on the right-hand side of"),
    "above": ("above", "over", "higher up than"),
    "below": ("below", "under", "beneath"),
}

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
        noun = self.word(NOUNS[item.shape])
        if plural:
            noun += "es" if noun.endswith(("s", "x")) else "s"
        size = [self.word(SIZES[item.size])] if item.size else []
        color = [self.word(COLORS[item.color])] if item.color else []
        return " ".join([*size, *color, noun])

    def phrase(self, item: SceneItem) -> str:
        """The words with article and, if mentioned, place: `a big red star at the top`."""
        place = (item.row, item.column)
        where = [self.word(PLACES[place])] if any(place) else []
        return " ".join([with_article(self.words(item)), *where])

    def number(self, item: SceneItem, number: int) -> str:
        """Several items with the same description: `two red stars`."""
        if number == 1:
            return self.pick((with_article(self.words(item)), f"one {self.words(item)}"))
        return f"{NUMBERS[number]} {self.words(item, plural=True)}"

    def backdrop(self, background: Background) -> str:
        """The background, as far as mentioned, without article: `striped pale blue wall`."""
        pattern = [self.word(PATTERNS[background.pattern])] if background.pattern else []
        color = [self.word(BACKGROUND_COLORS[background.color])] if background.color else []
        return " ".join([*pattern, *color, self.word(BACKDROPS)])


def with_article(words: str) -> str:
    """Puts the indefinite article before the words."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def joined(phrases: Sequence[str]) -> str:
    """An enumeration: `a, b and c`."""
    *front, last = phrases
    return f"{', '.join(front)} and {last}" if front else last
