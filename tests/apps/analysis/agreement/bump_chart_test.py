"""The bump chart is drawn without overlapping elements."""

import io

import numpy as np
import pytest
from PIL import Image

from xmodal.apps.analysis.agreement import bump_chart
from xmodal.apps.analysis.agreement.bump_chart import draw_bump_chart
from xmodal.apps.analysis.agreement.rank_correlation import ranks_of_models


def make_ranks(models, metrics):
    rng = np.random.default_rng(models)
    names = [f"model {i}" for i in range(models)]
    table = {name: {f"b{j}/mean/m": rng.random() for j in range(metrics)} for name in names}
    return ranks_of_models(table, [f"b{j}/mean/m" for j in range(metrics)])


@pytest.mark.parametrize(("models", "metrics"), [(2, 2), (7, 10), (25, 3)])
def test_chart_is_a_png_that_grows_with_the_table(models, metrics):
    content = draw_bump_chart(make_ranks(models, metrics), title="Ranks")
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "PNG"
    width, height = picture.size
    # Inches per column and row at 150 dpi, plus margins for names and metrics.
    assert 1.0 * metrics * 150 < width < (1.2 * metrics + 3) * 150
    assert 0.32 * models * 150 < height < (0.33 * models + 2) * 150
    pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    colored = np.ptp(pixels.astype(int), axis=1) > 60
    assert colored.mean() > 0.02  # lines and markers
    assert (pixels == 255).all(axis=1).mean() > 0.5  # on white


def test_same_ranks_same_bytes():
    ranks = make_ranks(3, 2)
    assert draw_bump_chart(ranks) == draw_bump_chart(ranks)


def test_names_are_not_read_as_formulas():
    content = draw_bump_chart({"a$_b$": {"x$_{": 1.0, "y": 2.0}, "c": {"x$_{": 1.0}})
    assert Image.open(io.BytesIO(content)).format == "PNG"


def test_tied_models_stand_apart_in_the_order_they_come_in():
    ranks = {
        "first": {"a": 3.0, "b": 1.5, "c": 1.5},
        "second": {"c": 1.5, "a": 3.0, "b": 1.5},
        "third": {"a": 1.0, "c": 2.5, "b": 2.5},
    }
    assert bump_chart.assign_places(ranks) == {
        "first": {"b": 0, "c": 1, "a": 2},
        "second": {"b": 0, "c": 1, "a": 2},
        "third": {"a": 0, "b": 1, "c": 2},
    }


def test_models_that_lack_metrics_are_drawn_where_they_have_some():
    with_gap = {"m": {"a": 1.0, "b": 2.0}, "n": {"b": 1.0, "c": 2.0}, "o": {"a": 1.0, "b": 2.0}}
    places = bump_chart.assign_places(with_gap)
    assert places["o"] == {"a": 0, "b": 1}
    assert Image.open(io.BytesIO(draw_bump_chart(with_gap))).format == "PNG"
