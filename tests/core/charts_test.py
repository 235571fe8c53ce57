"""Charts: positions against values, text that stands for the drawing, and the page in a browser."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.browser import check_accessibility, check_layout, open_page
from xmodal.core.charts import Bar, Bars, Lines, Matrix, Scale, histogram_line
from xmodal.core.page import Page


def parse(chart):
    (svg,) = re.findall(r'<svg role="img".*?</svg>', chart.to_html(), re.DOTALL)
    return ET.fromstring(svg)


def read_bars(chart):
    """The values of the drawn bars and intervals, measured against the ticks of the axis."""
    svg = parse(chart)
    ticks = [t for t in svg.iter("text") if t.get("class") == "axis tick"]
    positions, values = ([float(x) for x in each] for each in (
        (t.get("x") for t in ticks), (t.text.replace(",", "") for t in ticks)))  # fmt: skip
    slope, start = np.polyfit(positions, values, 1)
    widths = [float(rect.get("width")) * slope for rect in svg.iter("rect")]
    ends = [re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", path.get("d"))[0] for path in svg.iter("path")]
    lines = [line for line in svg.iter("line") if line.get("class") == "chance"]
    chance = [start + slope * float(line.get("x1")) for line in lines]
    return widths, [[start + slope * float(x) for x in each] for each in ends], chance


def test_bars_are_as_long_as_their_values():
    chart = Bars("T", [Bar("a", 12.5, 10, 15, 0.5), Bar("<b>", 70, 66, 75), Bar("none", math.nan)])
    widths, ends, chance = read_bars(chart)
    np.testing.assert_allclose(widths, [12.5, 70], atol=0.02)
    np.testing.assert_allclose(ends, [[10, 15], [66, 75]], atol=0.02)
    np.testing.assert_allclose(chance, [0.5], atol=0.02)
    described = parse(chart).find("desc").text
    assert (
        "a 12.5, interval 10 to 15, chance 0.5; <b> 70.0, interval 66 to 75; none -;" in described
    )


def test_negative_bars_end_at_zero():
    (rect,) = parse(chart := Bars("T", [Bar("a", -0.2)])).iter("rect")
    assert float(rect.get("x")) + float(rect.get("width")) == pytest.approx(chart.scale(0))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((0, 0.35), [0, 0.1, 0.2, 0.3, 0.4]),
        ((0, 100), [0, 20, 40, 60, 80, 100]),
        ((-0.3, 0.2), [-0.3, -0.2, -0.1, 0, 0.1, 0.2]),
        ((7, 7, math.nan), [7, 7.2, 7.4, 7.6, 7.8, 8]),
        ((), [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_round(values, ticks):
    scale = Scale(values, 10, 110)
    assert scale.ticks == ticks
    assert (scale(ticks[0]), scale(ticks[-1])) == (10, 110)


def test_lines_pass_through_their_points():
    chart = Lines("T", {"a": [(0, 1), (5, 3)], "b": histogram_line([0, 2.5, 5], [1, 2])}, "x")
    x, y = chart.scales
    drawn = [
        [tuple(map(float, p.split(","))) for p in line.get("points").split()]
        for line in parse(chart).iter("polyline")
    ]
    assert drawn[0] == [(x(0), y(1)), (x(5), y(3))]
    outline = [(0, 0), (0, 1), (2.5, 1), (2.5, 2), (5, 2), (5, 0)]
    assert drawn[1] == [(x(a), y(b)) for a, b in outline]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_in_a_browser(chromium, tmp_path, size, scheme):
    names = [f"class number {n}" for n in range(20)]
    charts = [
        Bars("Bars", [Bar(f"{'long ' * n}name", 10 * n, 9 * n, 11 * n, n, n) for n in range(5)]),
        Lines("Lines", {f"line {n}": [(0, n), (9, 4 - n)] for n in range(4)}, "step"),
        Matrix("Matrix", names, np.arange(400).reshape(20, 20), "own", "predicted"),
    ]
    body = "".join(each.to_html() for each in charts)
    path = tmp_path / "charts.html"
    path.write_text(Page("Charts", body=f'<h2>All</h2><div class="charts">{body}</div>').to_html())
    with open_page(chromium, path, size=size, scheme=scheme) as page:
        check_layout(page)
        check_accessibility(page)
        letters = page.evaluate("""() => [...document.querySelectorAll("svg[role] text")].map(
            text => text.getBoundingClientRect()).filter(box => box.height < 10 || box.left < 0)""")
        assert not letters  # Legible, and none is cut.
