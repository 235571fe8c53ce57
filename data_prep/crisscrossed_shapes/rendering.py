"""Draws a scene as a small antialiased picture."""

import io

import numpy as np
from PIL import Image, ImageDraw

from data_prep.crisscrossed_shapes.scene_graph import COLUMNS, ROWS, Background, Scene, SceneItem

SIZE = 64
_OVERSAMPLING = 4
_CANVAS = SIZE * _OVERSAMPLING

_ITEM_RGB = {
    "red": (214, 32, 38),
    "orange": (245, 130, 25),
    "yellow": (248, 214, 30),
    "green": (38, 150, 60),
    "blue": (36, 84, 200),
    "purple": (126, 48, 160),
    "pink": (240, 96, 160),
    "brown": (124, 76, 40),
    "black": (18, 18, 20),
    "white": (252, 252, 252),
}
_BACKGROUND_RGB = {
    "white": (246, 246, 246),
    "black": (26, 26, 30),
    "grey": (158, 158, 162),
    "beige": (232, 214, 178),
    "pale blue": (176, 212, 240),
    "pale green": (180, 224, 178),
    "pale pink": (248, 204, 212),
}
_RADIUS = {"small": 4.6, "medium": 6.5, "large": 8.8}
_PERIOD = 8  # period of a background pattern, in pixels
# Cell centers stay outside the 12.5 % that the evaluation crop removes.
_CENTERS = (15.5, 32.0, 48.5)


def _arc(start: float, stop: float, radius: float = 1.0, center: float = 0.0) -> np.ndarray:
    angles = np.radians(np.linspace(start, stop, 40))
    return np.stack([center + radius * np.cos(angles), radius * np.sin(angles)], axis=1)


def _star() -> np.ndarray:
    angles = np.radians(np.arange(10) * 36 - 90)
    radii = np.where(np.arange(10) % 2, 0.45, 1.1)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def _heart() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 60)
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([16 * np.sin(t) ** 3, -y - 2], axis=1) / 15.5


def _cross() -> np.ndarray:
    corner = np.array([(0.34, -1), (0.34, -0.34), (1, -0.34)])
    turn = np.array([(0, 1), (-1, 0)])  # row vectors turned by a quarter
    return np.concatenate([corner @ np.linalg.matrix_power(turn, k) for k in range(4)])


# Unit outlines with y pointing down; the ring's seam joins its outer and inner circle.
_OUTLINES = {
    "circle": 0.95 * _arc(0, 360),
    "square": 0.85 * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]),
    "triangle": np.array([(0, -1.0), (1.05, 0.85), (-1.05, 0.85)]),
    "star": _star(),
    "heart": _heart(),
    "cross": _cross(),
    "ring": np.concatenate([_arc(0, 360), _arc(360, 0, radius=0.52)]),
    "moon": np.concatenate([_arc(45, 315), _arc(285, 75, radius=0.73, center=0.52)])
    - np.array([-0.2, 0]),
    "diamond": np.array([(0, -1.1), (0.75, 0), (0, 1.1), (-0.75, 0)]),
}


def render(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Draws a scene; place, angle and color vary slightly, unlike in the scene graph.

    Args:
      scene: the scene to draw.
      rng: source of the variation.

    Returns:
      uint8 [64, 64, 3].
    """
    image = Image.new("RGB", (_CANVAS, _CANVAS))
    draw = ImageDraw.Draw(image)
    _draw_background(draw, scene.background, rng)
    for item in scene.items:
        outline = _outline(item, rng) * _OVERSAMPLING
        draw.polygon(outline.ravel().tolist(), fill=_tinted(_ITEM_RGB[item.color], 12, rng))
    return np.asarray(image.reduce(_OVERSAMPLING))


def png(pixels: np.ndarray) -> bytes:
    """Encodes uint8 pixels [H, W, 3] as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _outline(item: SceneItem, rng: np.random.Generator) -> np.ndarray:
    """Polygon of an item in pixels, [K, 2] as (x, y)."""
    angle = np.radians(rng.uniform(-10, 10))
    rotation = np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
    center = (_CENTERS[COLUMNS.index(item.column)], _CENTERS[ROWS.index(item.row)])
    radius = _RADIUS[item.size] * rng.uniform(0.93, 1.07)
    return _OUTLINES[item.shape] @ rotation * radius + center + rng.uniform(-1.2, 1.2, 2)


def _tinted(rgb: tuple[int, int, int], spread: int, rng: np.random.Generator) -> tuple[int, ...]:
    shifts = rng.integers(-spread, spread + 1, 3).tolist()
    return tuple(_clipped(value + shift) for value, shift in zip(rgb, shifts, strict=True))


def _clipped(value: int) -> int:
    return min(max(value, 0), 255)  # np.clip takes twenty times as long for one number.


def _draw_background(
    draw: ImageDraw.ImageDraw, background: Background, rng: np.random.Generator
) -> None:
    base = _tinted(_BACKGROUND_RGB[background.color], 6, rng)
    contrast = 40 if sum(base) < 3 * 128 else -36
    mark = tuple(_clipped(value + contrast) for value in base)
    draw.rectangle((0, 0, _CANVAS, _CANVAS), fill=base)
    period = _PERIOD * _OVERSAMPLING
    starts = range(-int(rng.integers(period)), _CANVAS, period)
    for k, x in enumerate(starts):
        if background.pattern == "striped":
            draw.rectangle((x, 0, x + period // 2 - 1, _CANVAS), fill=mark)
            continue
        for y in starts if background.pattern != "plain" else ():
            if background.pattern == "dotted":
                shift = k % 2 * period // 2  # every other column is staggered
                draw.ellipse((x, y + shift, x + period // 3, y + shift + period // 3), fill=mark)
            elif (x + y) // period % 2:
                draw.rectangle((x, y, x + period - 1, y + period - 1), fill=mark)
