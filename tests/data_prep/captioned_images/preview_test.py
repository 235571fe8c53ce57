"""The page of pictures with their captions, and the examples that a build prints."""

import base64
import html.parser
import io
import re

import PIL.Image
import PIL.ImageChops
import PIL.ImageStat
import pytest

from tests.browser import check_accessibility, check_layout, open_page
from tests.data_prep.captioned_images import own_folders as folders
from tests.data_prep.captioned_images.own_folders import NUMBERS, prepare


class _Figures(html.parser.HTMLParser):
    """The pictures of a page with the text under them."""

    def __init__(self):
        super().__init__()
        self.found, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "img":
            self.found.append([dict(attrs)["src"], ""])

    def handle_data(self, data):
        if self.found:
            self.found[-1][1] += data + "\n"


def test_twenty_pictures_with_their_captions_and_splits(tmp_path, capfd):
    folder = tmp_path / "files"
    folder.mkdir()
    folders.write_images(folder, NUMBERS)
    rows = [[folders.name(n), f"<b>caption</b> & {n}", f"also\n{n}"] for n in NUMBERS]
    folders.write_csv(folder / "all.csv", [["image", "caption_1", "caption_2"], *rows])
    builder = prepare(folder)
    split_of = {name: split for name, (split, _) in folders.stored_pictures(builder).items()}
    said = capfd.readouterr().err
    path = re.search(r"preview +(.*preview.html)", said)[1]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    figures = _Figures()
    figures.feed(page)
    assert len(figures.found) == 20
    assert "b" not in figures.tags
    assert not re.search(r"src=.(?!data:)|href|<script", page)
    for source, text in figures.found:
        number = int(re.search(r"images/p(\d+).png", text)[1])
        assert f"<b>caption</b> & {number}\n" in text
        assert f"also\n{number}\n" in text
        assert (
            f"images/{folders.name(number)}, {split_of[f'images/{folders.name(number)}']}" in text
        )
        shown = PIL.Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        whole = PIL.Image.open(folder / "images" / folders.name(number))
        difference = PIL.ImageChops.difference(shown.convert("RGB"), whole)
        assert PIL.ImageStat.Stat(difference).mean < [12, 12, 12]
    examples = re.findall(r"example \d +images/p(\d+).png -> (.*)", said)
    assert len(examples) == 3
    for number, text in examples:
        assert text == f"<b>caption</b> & {int(number)} | also {int(number)}"
    assert "layout    a table of file names and captions" in said


def test_the_page_is_small_however_large_the_pictures(tmp_path):
    folder = tmp_path / "files"
    (folder / "images").mkdir(parents=True)
    for n in NUMBERS:
        (folder / "images" / f"{n}.jpg").write_bytes(folders.picture(n, (900, 600), "JPEG"))
    rows = [[f"{n}.jpg", f"caption {n} {k}"] for n in NUMBERS for k in range(9)]
    folders.write_csv(folder / "all.csv", [["image", "caption"], *rows])
    prepare(folder)
    (path,) = (tmp_path / "files_tfds" / "own").glob("*/preview.html")
    page = path.read_text()
    assert len(page) < 400_000
    assert page.count("(3 more)") == 20
    assert page.count("width=") == 1


@pytest.mark.slow
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_long_captions_and_names_stay_in_the_window(chromium, tmp_path, size):
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    folders.write_images(folder, NUMBERS)
    rows = [[folders.name(n), f"{'word ' * 30}{'W' * 90} {n}"] for n in NUMBERS]
    folders.write_csv(folder / "all.csv", [["image", "caption"], *rows])
    prepare(folder)
    (path,) = tmp_path.glob("*_tfds/own/*/preview.html")
    with open_page(chromium, path, size=size) as page:
        check_layout(page)
        check_accessibility(page)
