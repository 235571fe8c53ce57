"""The words that describers use for shapes, colors, sizes, places and backgrounds.

Keys are the values of the scene graph; the first word of every row is the plain one.
"""

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
