"""All pages in a real browser: layout, accessibility, keys and clicks."""

import pytest

from tests.apps.annotate.server import links, serving
from tests.apps.annotate.small_studies import make_study, pairs
from tests.browser import check_accessibility, check_layout, open_page
from xmodal.apps.annotate.study_file import StudyQuestion, StudyUnit

LONG = (
    "A man in a bright yellow jacket rides a wave on top of a surfboard while two friends with a "
    "small brown dog watch from the beach, next to Llanfairpwllgwyngyllgogerychwyrndrobwll."
)
SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
CAPTIONS = [
    (10, LONG, 1),
    (20, SCRIPT, 2),
    (30, "Two dogs.", 3),
]
STUDIES = {
    "sts": pairs("sts", (10, 20), (20, 30)),
    "sis": pairs("sis", (1, 2), (2, 3)),
    "sits": pairs("sits", (20, 1), (10, 2)),
    "match": [StudyUnit((StudyQuestion("match", 10, 1), StudyQuestion("match", 20, 2)))],
    "preference": [
        StudyUnit((StudyQuestion("preference", 1, 2, about=each),)) for each in (10, 20)
    ],
}
# The layout depends on the size and the contrast on the scheme; the pages share their style.
LOOKS = [("desktop", "light"), ("phone", "dark")]


def check(page):
    check_layout(page)
    check_accessibility(page)


def follow(page, act):
    with page.expect_navigation():
        act()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "look"), [(kind, LOOKS[number % 2]) for number, kind in enumerate(STUDIES)]
)
def test_pages_of_a_rater(kind, look, chromium, tmp_path):
    study, (size, scheme) = make_study(tmp_path / "study", STUDIES[kind], CAPTIONS), look
    with serving(study) as server:
        (link,) = links(study, server, 1).values()
        # Fails on console errors, such as content blocked by the security policy.
        with open_page(chromium, link, size=size, scheme=scheme) as page:
            check(page)
            follow(page, lambda: page.keyboard.press("Enter"))
            send = page.locator("button[type=submit]")
            assert send.is_disabled()
            page.keyboard.press("Enter")
            assert send.is_disabled()
            page.keyboard.press("2")
            assert send.is_enabled()
            check(page)
            follow(page, lambda: page.keyboard.press("Enter"))
            assert page.title() != "owned"
            follow(page, lambda: page.click("text=Change my last answer"))
            follow(page, lambda: page.click("text=Leave it as it is"))
            page.keyboard.press("1")
            follow(page, send.click)
            assert page.inner_text("h1") == "Thank you, that was all"
