"""A page with all elements: its contents, and its appearance and use in a browser."""

import base64
import html
import io
import re

import numpy as np
import PIL.Image
import pytest

from tests.browser import check_accessibility, check_layout, open_page
from xmodal.core.page import Group, Page, PageItem, PageRow, Section, from_markdown, to_data_uri

EVIL = """<script>alert(1)</script> & "quotes" 'too'"""


def make_picture(width=60, height=40, shade=100, kind="PNG"):
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height), (shade, 80, 40)).save(file, kind)
    return file.getvalue()


def make_page():
    items = [
        PageItem(f"caption {n} {'long ' * n}", make_picture(60 + n, 40, 20 * n), f"image {n}",
             notes=[f"{n}", "0.5"], mark="own" if n == 2 else "")
        for n in range(7)
    ]  # fmt: skip
    rows = [PageRow(items, "found"), PageRow([PageItem("word " * 30)], "words")]
    sections = [Section(EVIL, rows, PageItem("text", items[0].picture, "q"))] * 3
    groups = [Group("First", sections, "On it."), Group("Second", sections[:1])]
    return Page("A page <of> tests", groups, ["A note."])


def test_text_is_escaped_everywhere():
    item = PageItem(EVIL, make_picture(), EVIL, [EVIL], EVIL)
    rows = [PageRow([item], EVIL)]
    text = Page(EVIL, [Group(EVIL, [Section(EVIL, rows, item)], EVIL)], [EVIL]).to_html()
    assert EVIL not in text
    assert "<script" not in text
    assert html.unescape(text).count(EVIL) > 10
    assert not re.search(r"https?:|<link|@import|url\(", text)


@pytest.mark.parametrize(
    ("picture", "kind", "size"),
    [
        (make_picture(320, 20), "png", (320, 20)),
        (make_picture(960, 480), "jpeg", (320, 160)),
        (make_picture(30, 20, kind="BMP"), "jpeg", (30, 20)),
        (PIL.Image.new("L", (20, 640)), "jpeg", (10, 320)),
    ],
)
def test_pictures_are_kept_or_made_small(picture, kind, size):
    head, _, data = to_data_uri(picture).partition(",")
    assert head == f"data:image/{kind};base64"
    content = base64.b64decode(data)
    assert PIL.Image.open(io.BytesIO(content)).size == size
    if isinstance(picture, bytes) and kind == "png":
        assert content == picture


def test_a_picture_of_several_items_is_embedded_once():
    twice, once = PageItem(picture=make_picture(), alt="<a>"), PageItem(picture=make_picture(70))
    rows = [PageRow([twice, once])]
    page = Page("Page", [Group("", [Section("First", rows, twice), Section("Second", [])])])
    text = page.to_html()
    assert text.count(to_data_uri(make_picture())) == 1
    assert text.count('aria-label="&lt;a&gt;"') == text.count("<svg") == 2
    assert text.count('href="#picture0"') == 1
    assert text.count(f'<img src="{to_data_uri(make_picture(70))}"') == 1


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("desktop", "light")])
def test_looks_in_a_browser(size, scheme, chromium, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(make_page().to_html(), encoding="utf-8")
    with open_page(chromium, path, size=size, scheme=scheme) as page:
        check_layout(page)
        check_accessibility(page)
        # Each of seven pictures is shown in four sections, and one also as their query.
        assert page.locator("img").count() == 0
        assert page.get_by_role("img").count() == 4 * 8
        assert page.locator("image").count() == 7
        sizes = page.eval_on_selector_all("use", "x => x.map(e => e.getBBox().width)")
        assert len(sizes) == 4 * 8 - 7
        assert min(sizes) >= 60
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades = [int(shade) for shade in re.findall(r"\d+", back)]
        assert np.mean(shades) < 60 if scheme == "dark" else np.mean(shades) > 200
        # The number of items in a row depends on the window: two on a phone, more on a desktop.
        tops = page.eval_on_selector_all(
            "#g1-1 ol:first-of-type > li", "x => x.map(e => e.offsetTop)"
        )
        assert tops.count(tops[0]) == 2 if size == "phone" else tops.count(tops[0]) > 4


MARKDOWN = f"""# Results of <b>

{EVIL} `<i>`

| model {EVIL} | {" | ".join(f"column {n}" for n in range(30))} |
| --- | {" | ".join(["---:"] * 30)} |
| mine | {" | ".join(map(str, range(30)))} |

- a line
- [examples](examples.html)

```
<code> & more
```
"""


def test_markdown_shows_html_as_text():
    text = from_markdown(MARKDOWN).to_html()
    assert "<h1>Results of &lt;b&gt;</h1>" in text
    assert EVIL not in text
    assert "<script" not in text
    assert html.unescape(text).count("<script>alert(1)</script>") == 2
    assert "<code>&lt;i&gt;</code>" in text
    assert "&lt;code&gt; &amp; more" in text
    assert text.count("<table>") == text.count("</table></div>") == 1
    assert '<td style="text-align: right;">29</td>' in text
    assert text.count("<li>a line</li>") == 1
    assert '<a href="examples.html">examples</a>' in text
