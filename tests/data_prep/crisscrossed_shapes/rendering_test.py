import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from data_prep.crisscrossed_shapes import rendering, scene_graph
from data_prep.crisscrossed_shapes.scene_graph import Background, Scene, SceneItem

ITEM = SceneItem("top", "right", "square", "red", "large")
SCENE = Scene((ITEM,), Background("plain", "grey"))


def rendered(scene, seed=0):
    return rendering.render(scene, np.random.default_rng(seed))


def center_and_area(scene):
    """Center and area of the pixels that differ from the background's color."""
    pixels = rendered(scene).astype(int)
    rows, columns = np.nonzero(np.abs(pixels - pixels[0, 0]).sum(axis=-1) > 90)
    return rows.mean(), columns.mean(), len(rows)


def test_an_image_is_64_pixels_wide_and_antialiased():
    pixels = rendered(SCENE)
    assert pixels.shape == (64, 64, 3)
    assert pixels.dtype == np.uint8
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 10  # edges mix two colors


@pytest.mark.parametrize("row", scene_graph.ROWS)
@pytest.mark.parametrize("column", scene_graph.COLUMNS)
def test_items_are_drawn_in_their_cells_inside_the_evaluation_crop(row, column):
    scene = Scene((dataclasses.replace(ITEM, row=row, column=column),), SCENE.background)
    y, x, _ = center_and_area(scene)
    third = 64 / 3
    assert int(y // third) == scene_graph.ROWS.index(row)
    assert int(x // third) == scene_graph.COLUMNS.index(column)
    changed = np.abs(rendered(scene).astype(int) - rendered(scene)[0, 0]).sum(axis=-1) > 90
    assert not changed[:4].any()
    assert not changed[-4:].any()
    assert not changed[:, :4].any()
    assert not changed[:, -4:].any()


@pytest.mark.parametrize("shape", scene_graph.SHAPES)
def test_larger_sizes_cover_more(shape):
    areas = [
        center_and_area(
            Scene((dataclasses.replace(ITEM, shape=shape, size=size),), SCENE.background)
        )[2]
        for size in scene_graph.SIZES
    ]
    assert 10 < areas[0] < 0.75 * areas[1]
    assert areas[1] < 0.75 * areas[2]


@pytest.mark.parametrize("name", ["shape", "color", "size", "row", "column"])
def test_every_attribute_shows(name):
    values = {"shape": scene_graph.SHAPES, "color": scene_graph.COLORS, "size": scene_graph.SIZES}
    values |= {"row": scene_graph.ROWS, "column": scene_graph.COLUMNS}
    pictures = [
        rendered(Scene((dataclasses.replace(ITEM, **{name: value}),), SCENE.background))
        for value in values[name]
    ]
    assert len({picture.tobytes() for picture in pictures}) == len(values[name])


def test_every_background_shows():
    pictures = {
        rendered(Scene((ITEM,), Background(pattern, color))).tobytes()
        for pattern in scene_graph.PATTERNS
        for color in scene_graph.BACKGROUND_COLORS
    }
    assert len(pictures) == len(scene_graph.PATTERNS) * len(scene_graph.BACKGROUND_COLORS)


def test_rendering_is_a_function_of_the_generator_and_varies_with_it():
    np.testing.assert_array_equal(rendered(SCENE, 5), rendered(SCENE, 5))
    assert (rendered(SCENE, 5) != rendered(SCENE, 6)).any()


def test_png_is_lossless():
    pixels = rendered(SCENE)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(rendering.png(pixels)))), pixels)
