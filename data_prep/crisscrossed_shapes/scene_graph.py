"""Scene graphs: the contents of a picture, and the part of them that a caption mentions."""

import dataclasses

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "ring", "moon", "diamond")
COLORS = (
    "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white",
)  # fmt: skip
SIZES = ("small", "medium", "large")
ROWS = ("top", "middle", "bottom")
COLUMNS = ("left", "center", "right")
PATTERNS = ("plain", "striped", "dotted", "checked")
BACKGROUND_COLORS = ("white", "black", "grey", "beige", "pale blue", "pale green", "pale pink")
MAX_ITEMS = 4
OPPOSITES = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}


@dataclasses.dataclass(frozen=True, order=True)
class SceneItem:
    """One object of a scene, or a caption's mention of it; unmentioned attributes are ""."""

    row: str = ""
    column: str = ""
    shape: str = ""
    color: str = ""
    size: str = ""


@dataclasses.dataclass(frozen=True)
class Background:
    """The background of the objects; unmentioned attributes are ""."""

    pattern: str = ""
    color: str = ""


@dataclasses.dataclass(frozen=True)
class Scene:
    """One to four items in different cells of a 3 x 3 grid, sorted, on a background.

    Since items are sorted, scenes are equal if and only if their scene graphs are.
    """

    items: tuple[SceneItem, ...]
    background: Background


@dataclasses.dataclass(frozen=True)
class Content:
    """The content of a caption: a partial scene graph.

    Attributes:
      items: the items mentioned, with the attributes mentioned.
      background: the attributes of the background that are mentioned.
      count: the number of items in the scene, if mentioned.
      relations: (i, relation, j): `items[i]` is `relation` `items[j]`.
    """

    items: tuple[SceneItem, ...] = ()
    background: Background = Background()
    count: int | None = None
    relations: tuple[tuple[int, str, int], ...] = ()


def relations_between(first: SceneItem, second: SceneItem) -> tuple[str, ...]:
    """Relations of the first item to the second, by their cells: zero, one or two."""
    right = COLUMNS.index(first.column) - COLUMNS.index(second.column)
    down = ROWS.index(first.row) - ROWS.index(second.row)
    horizontal = {-1: ("left of",), 0: (), 1: ("right of",)}[(right > 0) - (right < 0)]
    vertical = {-1: ("above",), 0: (), 1: ("below",)}[(down > 0) - (down < 0)]
    return horizontal + vertical


def full_content(scene: Scene) -> Content:
    """Everything that can be said of a scene."""
    pairs = [(i, j) for j in range(len(scene.items)) for i in range(j)]
    relations = [
        (i, relation, j)
        for i, j in pairs
        for relation in relations_between(scene.items[i], scene.items[j])
    ]
    return Content(scene.items, scene.background, len(scene.items), tuple(relations))
