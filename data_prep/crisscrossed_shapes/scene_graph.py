"""Scene graphs: the contents of a picture, the part of them that a caption mentions, and a draw.

A scene is drawn from a theme, in which some shapes, colors and backgrounds go together as things
do in photographs, or is an earlier scene of its split with a few facts changed. The changed copies
make image-image similarity vary.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

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

_COUNT_ODDS = (0.2, 0.35, 0.3, 0.15)
_SIZE_ODDS = (0.3, 0.35, 0.35)
_ON_THEME = 0.85
_EDITED_COPY = 0.4
_NEW_BACKGROUND = 0.25


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


class Theme(NamedTuple):
    """Shapes, colors and backgrounds that go together."""

    shapes: tuple[str, ...]
    colors: tuple[str, ...]
    backgrounds: tuple[Background, ...]


def _theme(shapes: str, colors: str, backgrounds: str) -> Theme:
    looks = [background.split(" ", 1) for background in backgrounds.split(", ")]
    return Theme(
        tuple(shapes.split()), tuple(colors.split()), tuple(Background(*look) for look in looks)
    )


THEMES = (
    _theme("star moon circle", "yellow white orange", "plain black, dotted black, plain grey"),
    _theme("heart ring diamond", "red pink white", "plain pale pink, dotted pale pink"),
    _theme("triangle circle moon", "green brown yellow", "plain pale green, striped pale green"),
    _theme("circle ring cross", "blue white purple", "plain pale blue, striped pale blue"),
    _theme("square cross triangle", "red blue black", "plain white, checked white"),
    _theme("diamond square star", "purple orange black", "checked grey, plain grey"),
    _theme("square circle triangle", "red yellow blue green", "plain white, plain beige"),
    _theme("heart star moon", "pink purple yellow", "dotted pale blue, plain pale blue"),
    _theme("cross diamond ring", "black brown orange", "striped beige, plain beige"),
    _theme("moon ring heart", "white blue green", "striped black, checked black"),
)


def make_scenes(seed: int, sizes: Mapping[str, int]) -> dict[str, list[Scene]]:
    """Draws the scenes of every split; no scene occurs twice, within or across splits.

    Args:
      seed: seed of every draw; the scenes of a split also depend on the splits before it.
      sizes: number of scenes of each split, by split name.
    """
    rng = np.random.default_rng((seed, 0))
    taken: set[Scene] = set()
    splits: dict[str, list[Scene]] = {}
    for split, size in sizes.items():
        scenes: list[Scene] = []
        while len(scenes) < size:
            if scenes and rng.random() < _EDITED_COPY:
                scene = _edited(scenes[rng.integers(len(scenes))], rng)
            else:
                scene = _drawn(rng)
            if _is_visible(scene) and scene not in taken:
                taken.add(scene)
                scenes.append(scene)
        splits[split] = scenes
    return splits


def _is_visible(scene: Scene) -> bool:
    """Whether no item has the color of the background."""
    return all(item.color != scene.background.color for item in scene.items)


def _choice(rng: np.random.Generator, options: tuple) -> Any:
    return options[rng.integers(len(options))]


def _drawn(rng: np.random.Generator) -> Scene:
    theme = _choice(rng, THEMES)
    background = _choice(rng, theme.backgrounds)
    if rng.random() > _ON_THEME:
        background = Background(_choice(rng, PATTERNS), _choice(rng, BACKGROUND_COLORS))
    count = rng.choice(MAX_ITEMS, p=_COUNT_ODDS) + 1
    cells = rng.choice(len(ROWS) * len(COLUMNS), size=count, replace=False)
    return Scene(tuple(sorted(_drawn_item(int(cell), theme, rng) for cell in cells)), background)


def _drawn_item(cell: int, theme: Theme, rng: np.random.Generator) -> SceneItem:
    row, column = divmod(cell, len(COLUMNS))
    return SceneItem(
        ROWS[row],
        COLUMNS[column],
        shape=_choice(rng, theme.shapes if rng.random() < _ON_THEME else SHAPES),
        color=_choice(rng, theme.colors if rng.random() < _ON_THEME else COLORS),
        size=SIZES[rng.choice(len(SIZES), p=_SIZE_ODDS)],
    )


def _edited(scene: Scene, rng: np.random.Generator) -> Scene:
    """The scene with its background or up to two of its items changed, added or removed."""
    other = _drawn(rng)  # the source of new attributes
    background = other.background if rng.random() < _NEW_BACKGROUND else scene.background
    items = {(item.row, item.column): item for item in scene.items}
    for new in other.items[: rng.integers(3)]:
        change = _choice(rng, ("shape", "color", "size", "add", "remove"))
        place = _choice(rng, tuple(items))
        if change == "add" and len(items) < MAX_ITEMS:
            items[new.row, new.column] = new
        elif change == "remove" and len(items) > 1:
            del items[place]
        elif change in ("shape", "color", "size"):
            items[place] = dataclasses.replace(items[place], **{change: getattr(new, change)})
    return Scene(tuple(sorted(items.values())), background)
