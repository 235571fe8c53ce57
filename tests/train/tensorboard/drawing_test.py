"""Drawings of queries and the items they retrieve."""

import io

import numpy as np
import PIL.Image

from xmodal.core.page import PageItem, PageRow, Section
from xmodal.train.tensorboard.drawing import draw_section

RED, GREEN = np.array([200, 0, 0]), np.array([10, 125, 50])


def encoded(size):
    file = io.BytesIO()
    PIL.Image.new("RGB", size, tuple(RED.tolist())).save(file, "PNG")
    return file.getvalue()


def count(picture, color):
    return int((picture == color).all(-1).sum())


def test_pictures_are_drawn_as_large_as_a_cell_allows():
    items = [PageItem(picture=encoded((10, 10))), PageItem(picture=encoded((400, 200)))]
    picture = draw_section(Section("two", [PageRow(items)]))
    assert picture.dtype == np.uint8
    assert count(picture, RED) == 120 * 120 + 120 * 60


def test_only_marked_items_have_a_frame():
    plain = PageItem("a dog", notes=("rank 1", "0.5000"))
    section = Section(
        "caption 3: rank 2 of 9", [PageRow([plain, plain], "Found first")], PageItem("a cat")
    )
    assert count(draw_section(section), GREEN) == 0
    marked = PageItem("a dog", notes=("rank 1", "0.5000"), mark="shapes")
    framed = Section(section.title, [PageRow([plain, marked], "Found first")], section.query)
    assert count(draw_section(framed), GREEN) > 2 * 136


def test_long_texts_of_any_script_stay_in_their_cell():
    """A row grows with its number of lines, up to a limit; columns do not."""
    short, long = (
        draw_section(Section("q", [PageRow([PageItem(text)])]))
        for text in ("word", "слово " * 400 + "x" * 300)
    )
    assert short.shape[1] == long.shape[1]
    assert short.shape[0] < long.shape[0] < short.shape[0] + 100


def test_a_section_without_items():
    assert draw_section(Section("nothing", [])).shape[2] == 3
