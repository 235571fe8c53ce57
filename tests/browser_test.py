"""The page checks detect the mistakes that they look for."""

import pytest

from tests.browser import check_accessibility, check_layout, open_page

PAGE = '<!doctype html><html lang="en"><title>t</title><main><h1>t</h1>{}</main></html>'


def write(tmp_path, content):
    path = tmp_path / "page.html"
    path.write_text(PAGE.format(content))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "check", "message"),
    [
        ('<p style="width: 3000px">wide</p>', check_layout, "wider than the window"),
        ('<img alt="none" src="data:image/png;base64,AAAA">', check_layout, "not shown"),
        (
            '<p style="color: #ccc">pale</p>',
            check_accessibility,
            "color-contrast",
        ),
        ("<input>", check_accessibility, "label"),
    ],
)
def test_mistakes_of_a_page(content, check, message, chromium, tmp_path):
    with open_page(chromium, write(tmp_path, "<p>right</p>")) as page:
        check(page)
    with (
        open_page(chromium, write(tmp_path, content)) as page,
        pytest.raises(AssertionError, match=message),
    ):
        check(page)


@pytest.mark.slow
def test_errors_of_scripts_and_missing_files(chromium, tmp_path):
    script = write(tmp_path, "<script>throw Error('broken')</script>")
    with pytest.raises(AssertionError, match="broken"), open_page(chromium, script):
        pass
    missing = write(tmp_path, '<img alt="gone" src="gone.png">')
    with pytest.raises(AssertionError, match=r"gone\.png"), open_page(chromium, missing):
        pass
