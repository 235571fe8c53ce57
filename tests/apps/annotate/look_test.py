"""All pages in a real browser: layout, accessibility, keys and clicks."""

import re

import pytest

from tests.apps.annotate.server import links, serving
from tests.apps.annotate.small_studies import make_study, pairs
from tests.browser import check_accessibility, check_layout, open_page
from xmodal.apps.annotate.answers import read_answers
from xmodal.apps.annotate.questions import KINDS
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
    "numbers": pairs("sts", (10, 20), (20, 30)),
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
    numbers, (size, scheme) = kind == "numbers", look
    study = make_study(tmp_path / "study", STUDIES[kind], CAPTIONS, numbers=numbers)
    is_scale = kind in ("sts", "sis", "sits")
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
            assert send.is_disabled() == is_scale  # has no numbers
            page.keyboard.press("ArrowUp" if is_scale else "2")
            assert send.is_enabled()
            check(page)
            follow(page, lambda: page.keyboard.press("Enter"))
            assert page.title() != "owned"
            follow(page, lambda: page.click("text=Change my last answer"))
            follow(page, lambda: page.click("text=Leave it as it is"))
            page.keyboard.press("ArrowDown" if is_scale else "1")
            follow(page, send.click)
            assert page.inner_text("h1") == "Thank you, that was all"


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_a_slider_has_labels_and_no_numbers(look, chromium, tmp_path):
    study, (size, scheme) = make_study(tmp_path / "study", STUDIES["sts"], CAPTIONS), look
    with serving(study) as server:
        (link,) = links(study, server, 1).values()
        with open_page(chromium, link, size=size, scheme=scheme) as page:
            follow(page, lambda: page.keyboard.press("Enter"))
            slider, stored = page.locator("#slider"), page.locator("[name=answer]")
            assert not re.search(r"\d", page.inner_text(".slider"))
            assert slider.get_attribute("aria-valuetext") == "No answer yet"
            line = slider.bounding_box()
            boxes = [each.bounding_box() for each in page.locator(".scale li").all()][::-1]
            upright = size == "phone"
            at, length = ("y", "height") if upright else ("x", "width")
            places = [box[at] + box[length] / 2 - line[at] for box in boxes]

            def click(place):
                across = line["width" if upright else "height"] / 2
                slider.click(position={"x": across, "y": place} if upright
                             else {"x": place, "y": across})  # fmt: skip
                return float(stored.input_value())

            for point, label in enumerate(KINDS["sts"].scale):
                assert click(places[point]) == pytest.approx(point, abs=0.03)
                said = slider.get_attribute("aria-valuetext")
                assert label in said
                assert not re.search(r"\d", said)
            between = click(places[3] + 0.4 * (places[4] - places[3]))  # stays there
            assert between == pytest.approx(3.4, abs=0.03)
            page.keyboard.press("ArrowUp")
            assert float(stored.input_value()) == pytest.approx(between + 0.1)
            follow(page, lambda: page.keyboard.press("Enter"))
    (answer,) = read_answers(study)
    assert float(answer.value) == pytest.approx(between + 0.1)


@pytest.mark.slow
def test_digits_in_a_reason_choose_nothing(chromium, tmp_path):
    study = make_study(tmp_path / "study", STUDIES["match"], CAPTIONS)
    with serving(study) as server:
        (link,) = links(study, server, 1).values()
        with open_page(chromium, link, size="phone", scheme="light") as page:
            follow(page, lambda: page.keyboard.press("Enter"))
            page.keyboard.press("3")
            page.check("[name=wrong_caption]")
            page.click("[name=because]")
            page.keyboard.type("2 dogs, not 1")
            assert page.locator("[name=answer]:checked").get_attribute("value") == "weak_no"
            follow(page, lambda: page.keyboard.press("Enter"))
    (answer,) = read_answers(study)
    assert (answer.value, answer.wrong_caption, answer.because) == ("weak_no", 1, "2 dogs, not 1")
