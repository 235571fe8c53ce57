"""The page of an index in a browser: searches, pictures, keyboard, and address."""

import contextlib

import numpy as np
import PIL.Image
import pytest

import xmodal
from tests.api.search.pictures_test import draw_noise
from tests.api.search.serving import serving
from tests.api.tiny_dual_encoder import FEATURES, make_model, save_run
from tests.api.token_models_test import REGIONS, SECTION, make_images
from tests.browser import SIZES, check_accessibility, check_layout, open_page

CAPTIONS = ["a star", "the <i>red</i> circle", "a red star above the circle"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    paths = [folder / f"{name}.png" for name in ("dark", "gray & <b>bold", "light")]
    for path, pixels in zip(paths, draw_noise(3), strict=True):
        PIL.Image.fromarray(pixels).save(path)
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def index(of_pixels, photos):
    return xmodal.Index.build(xmodal.load(of_pixels), images=photos, captions=CAPTIONS)


@pytest.fixture(scope="module")
def of_features():
    return make_model()[0]


@contextlib.contextmanager
def open_index(chromium, index, query="", **options):
    """Opens the page of an index; on exit, fails if it asked for anything elsewhere."""
    with serving(index) as (host, port):
        base = f"http://{host}:{port}/"
        with open_page(chromium, base + query, **options) as page:
            page.wait_for_selector(".hit")
            yield page
            asked = page.evaluate("performance.getEntriesByType('resource').map(each => each.name)")
            assert asked
            assert not [url for url in asked if not url.startswith((base, "data:"))]


def wait_for(page, query):
    page.wait_for_url(f"**/?{query}")
    page.wait_for_selector("#hits[aria-busy='false'] .hit")


def shown(page):
    """Names of images or texts of captions, in order."""
    part = ".text" if page.locator(".hit.caption").count() else ".name"
    return page.locator(f".hit {part}").all_text_contents()


def expected(hits):
    return [hit.item.rpartition("/")[2] if hit.item[0] == "/" else hit.item for hit in hits]


def focused(page):
    return page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.id")


def test_words_find_images_and_captions_and_the_address_keeps_them(index, chromium):
    with open_index(chromium, index) as page:
        assert "3 images and 3 captions" in page.text_content("#status")
        assert shown(page) == ["dark.png", "gray & <b>bold.png", "light.png"]
        page.keyboard.press("/")
        page.keyboard.type("a red star")
        page.keyboard.press("Enter")
        wait_for(page, "q=a+red+star")
        hits = index.query("a red star")
        assert shown(page) == expected(hits)
        bars = page.locator(".bar")
        assert bars.first.get_attribute("aria-valuenow") == "100"
        assert bars.last.get_attribute("aria-valuenow") == "0"
        assert bars.first.get_attribute("title") == f"cosine {hits[0].score:.4g}"
        assert page.locator(".rank").all_text_contents() == ["1", "2", "3"]
        page.click("text=Captions")
        wait_for(page, "q=a+red+star&find=caption")
        assert shown(page) == expected(index.query("a red star", find="caption"))
        page.reload()
        page.wait_for_selector(".hit.caption")
        assert page.input_value("#words") == "a red star"
        page.click("text=the <i>red</i> circle")
        wait_for(page, "q=the+%3Ci%3Ered%3C%2Fi%3E+circle")
        page.go_back()
        page.go_back()
        wait_for(page, "q=a+red+star")
        assert shown(page) == expected(hits)
        frame, picture = (
            page.locator(f".hit {part}").first.bounding_box() for part in (".open", "img")
        )
        assert picture == frame


def test_more_like_a_hit_does_not_embed_it_again(index, chromium, monkeypatch):
    with open_index(chromium, index, "?q=a+star") as page:
        monkeypatch.setattr(index.model, "embed_images", None)
        monkeypatch.setattr(index.model, "embed_texts", None)
        page.click("text=More like this >> nth=1")
        page.wait_for_selector("#asked:visible")
        row = index.galleries["image"].names.index(index.query(like=("image", 0), top=1)[0].item)
        page.goto(page.url.split("?")[0] + f"?like=image:{row}")
        page.wait_for_selector("#asked:visible")
        own = index.galleries["image"].names[row].split("/")[-1]
        assert page.text_content("#asked p") == f"Similar to {own}"
        assert shown(page) == expected(index.query(like=("image", row)))
        assert own not in shown(page)
        assert len(shown(page)) == 2


def test_a_picture_is_chosen_dropped_or_pasted(index, photos, chromium):
    give = """([event, name, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
        document.body.dispatchEvent(event === "paste"
            ? new ClipboardEvent(event, {clipboardData: data, bubbles: true})
            : new DragEvent(event, {dataTransfer: data, bubbles: true, cancelable: true}));
    }"""
    with open_index(chromium, index) as page:
        page.set_input_files("#file", photos[2])
        wait_for(page, "picture=light.png")
        assert shown(page) == expected(index.query(image=photos[2]))
        assert page.locator("#asked img").evaluate("image => image.naturalWidth") == 60
        for event, row in (("drop", 0), ("paste", 1)):
            with open(photos[row], "rb") as file:
                page.evaluate(give, [event, f"{event}.png", list(file.read())])
            wait_for(page, f"picture={event}.png")
            assert shown(page) == expected(index.query(image=photos[row]))
        page.go_back()
        wait_for(page, "picture=drop.png")
        assert shown(page) == expected(index.query(image=photos[0]))
        page.reload()
        page.wait_for_selector("#status:has-text('“drop.png” is not kept')")


def test_the_keyboard_moves_opens_and_goes_back(index, chromium):
    rows = [hit.row for hit in index.query("a star")]
    with open_index(chromium, index, "?q=a+star", size="phone") as page:
        page.focus("#words")
        for key, row in (("Down", 0), ("Right", 1), ("Left", 0), ("Down", 2), ("Up", 0)):
            page.keyboard.press(f"Arrow{key}")
            assert focused(page) == f"#{rows[row]}"
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        assert page.url.endswith(f"?q=a+star#{rows[0]}")
        page.keyboard.press("ArrowRight")
        assert page.url.endswith(f"?q=a+star#{rows[1]}")
        assert page.get_attribute("#viewer-image", "src").startswith(f"image/{rows[1]}?")
        page.keyboard.press("Escape")
        page.wait_for_url("**/?q=a+star")
        assert focused(page) == f"#{rows[1]}"
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        page.go_back()
        page.wait_for_selector("dialog", state="hidden")
        page.keyboard.press("/")
        assert focused(page) == "words"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_layout_and_accessibility(index, chromium, size, scheme):
    with open_index(chromium, index, size=size, scheme=scheme) as page:
        for query in ("", "?q=a+star", "?q=a+star&find=caption", "?like=image:1", "?q=a+star#1"):
            page.goto(page.url.split("?")[0] + query)
            page.wait_for_selector("dialog[open]" if "#" in query else ".hit")
            page.wait_for_load_state("networkidle")
            check_layout(page)
            check_accessibility(page)


def test_features_have_no_pictures(of_features, chromium):
    features = list(np.random.default_rng(0).normal(size=(5, FEATURES)).astype(np.float32))
    index = xmodal.Index.build(of_features, images=features, captions=CAPTIONS)
    with open_index(chromium, index, "?q=a+star") as page:
        assert shown(page) == expected(index.query("a star"))
        assert not page.locator("img:visible, .open, #file").count()
        page.focus("#words")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("#asked:visible")
        check_accessibility(page)


@pytest.mark.slow
def test_a_similarity_of_tokens_finds_only_the_other_kind(chromium, tmp_path):
    folder, features = str(tmp_path / "run"), (REGIONS, FEATURES)
    model = xmodal.load(save_run(folder, steps=(3,), section=SECTION, features=features))
    images = list(make_images(5))
    index = xmodal.Index.build(model, images=images, captions=CAPTIONS)
    similar = index.query(like=("image", 1), find="caption")
    embedded_again = index.query(image=images[1], find="caption")
    assert [hit.row for hit in similar] == [hit.row for hit in embedded_again]
    with open_index(chromium, index, "?q=a+star&find=caption") as page:
        assert shown(page) == expected(index.query("a star"))
        assert not page.locator(".like, #kinds a:visible").count()


def test_an_index_of_captions_shows_notes(of_features, chromium):
    index = xmodal.Index.build(of_features, captions=CAPTIONS)
    with open_index(chromium, index, "?q=%E7%8B%97") as page:
        assert page.text_content("#notes").startswith("The model knows no word of the query")
        assert sorted(shown(page)) == sorted(CAPTIONS)
        assert not page.locator("#file, #kinds a:visible").count()


def test_a_model_without_texts_has_no_box_for_words(of_pixels, photos, chromium, monkeypatch):
    model = xmodal.load(of_pixels)
    monkeypatch.setattr(model, "modalities", ("image",))
    index = xmodal.Index.build(model, images=photos)
    with open_index(chromium, index) as page:
        assert not page.locator("#words:visible, .main:visible").count()
        assert page.locator(".hit img").count() == 3
        assert page.text_content("#status") == "Search 3 images: drop, paste or choose a picture."
        check_accessibility(page)


def test_arrays_have_no_pictures(of_pixels, chromium):
    index = xmodal.Index.build(xmodal.load(of_pixels), images=draw_noise(3))
    with open_index(chromium, index, "?q=a+star") as page:
        assert shown(page) == expected(index.query("a star"))
        assert not page.locator("img:visible, .open").count()


def test_a_lost_file_leaves_its_name(of_pixels, photos, tmp_path, chromium):
    lost = tmp_path / "lost.png"
    PIL.Image.fromarray(np.full((20, 20, 3), 90, np.uint8)).save(lost)
    index = xmodal.Index.build(xmodal.load(of_pixels), images=[str(lost), photos[0]])
    lost.unlink()
    with serving(index) as (host, port):
        page = chromium.new_page()  # `open_page` would report the request that fails.
        page.goto(f"http://{host}:{port}/")
        page.wait_for_selector("text=Moved, deleted or damaged")
        assert shown(page) == ["lost.png", "dark.png"]
        page.close()
