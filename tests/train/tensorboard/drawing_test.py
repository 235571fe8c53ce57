"""Drawings of queries and the items they retrieve."""

import dataclasses
import io

import numpy as np
import PIL.Image

from xmodal.core.page import PageItem, PageRow, Section
from xmodal.train.tensorboard import draw_section

RED, GREEN = np.array([200, 0, 0]), np.array([10, 125, 50])


def encoded(size):
    file = io.BytesIO()
    PIL.Image.new("RGB", size, tuple(RED.tolist())).save(file, "PNG")
    return file.getvalue()


def draw(title, rows, query=None):
    return np.asarray(PIL.Image.open(io.BytesIO(draw_section(Section(title, rows, query)))))


def count(picture, color):
    """The number of pixels of a color, which JPEG changes a little."""
    return int((np.abs(picture.astype(int) - color) < 40).all(-1).sum())


def test_only_marked_items_have_a_frame():
    plain = PageItem("a dog", notes=("rank 1", "0.5000"))
    marked = dataclasses.replace(plain, mark="shapes")
    title, query = "caption 3: rank 2 of 9", PageItem("a cat")
    assert count(draw(title, [PageRow([plain, plain], "Found first")], query), GREEN) < 100
    assert count(draw(title, [PageRow([plain, marked], "Found first")], query), GREEN) > 2 * 136


def test_long_texts_of_any_script_stay_in_their_cell():
    """A row grows with its number of lines, up to a limit; columns do not."""
    short, long = (
        draw("q", [PageRow([PageItem(text)])]) for text in ("word", "слово " * 400 + "x" * 300)
    )
    assert short.shape[1] == long.shape[1]
    assert short.shape[0] < long.shape[0] < short.shape[0] + 100
