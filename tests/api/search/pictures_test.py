"""Indexes of pictures: of folders, lists and datasets."""

import base64
import io
import json
import os
import re
import types

import numpy as np
import PIL.Image
import pytest

import xmodal
from xmodal.api.search import formats, items
from xmodal.api.search.gallery import IndexGallery
from xmodal.api.search.hits import Hit
from xmodal.apps import search as command
from xmodal.core.errors import UserError


def draw_noise(count):
    """Pictures of rising brightness: scores of equally bright noise differ by rounding alone."""
    pixels = np.random.default_rng(0).random((count, 50, 60, 3))
    return (pixels * np.geomspace(16, 256, count)[:, None, None, None]).astype(np.uint8)


def save_pictures(folder, count=4):
    (folder / "below").mkdir(parents=True)
    paths = []
    for number, pixels in enumerate(draw_noise(count)):
        paths.append(folder / ("below" if number % 2 else "") / f"{number}.png")
        PIL.Image.fromarray(pixels).save(paths[-1])
    (folder / "notes.txt").write_text("no picture")
    return paths


@pytest.mark.slow
def test_pictures_find_themselves_and_make_a_page(of_pixels, search, tmp_path):
    paths, index = save_pictures(tmp_path / "photos"), f"--index={tmp_path / 'index'}"
    printed = search(
        "build", f"--model={of_pixels}", f"--images={tmp_path / 'photos'}",
        f"--output={tmp_path / 'index'}",
    )  # fmt: skip
    assert "images: 4 items" in printed
    found = json.loads(search("query", index, f"--image={paths[2]}", "--format=json"))
    assert found["hits"][0]["item"] == str(paths[2])
    assert found["hits"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert len(found["hits"]) == 4
    paths[0].unlink()
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.open(paths[1]).rotate(90, expand=True).save(paths[1], exif=exif)
    output = tmp_path / "page.html"
    printed = search("query", index, "a red star", "--format=html", f"--output={output}")
    lost = f"pictures that were moved or deleted: 1, such as {paths[0]}\n"
    assert printed == f"4 hits in {output}\n{lost}"
    shown = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', output.read_text())
    sizes = [PIL.Image.open(io.BytesIO(base64.b64decode(each))).size for each in shown]
    assert sizes == [(60, 50)] * 3  # One is missing, and one was rotated.
    # Files are named without their folders, and the pictures lead to them.
    named = re.findall(r'<p class="text">(.*)</p>', output.read_text())
    assert sorted(named) == [path.name for path in paths]
    links = re.findall(r'<a href="(file:.*)">\s*<img', output.read_text())
    assert sorted(links) == sorted(path.as_uri() for path in paths[1:])
    page = formats.as_page(
        "q", [Hit(1, 0, "/a/b/1.png", 1), Hit(2, 1, "/a/c/1.png", 0)], lambda hit: None
    )
    assert [item.text for item in page.groups[0].sections[0].rows[0].items] == [
        "b/1.png",
        "c/1.png",
    ]


@pytest.mark.parametrize("relative", [False, True])
def test_a_page_shows_no_picture_from_outside_the_indexed_folder(
    of_pixels, search, tmp_path, monkeypatch, relative
):
    """Whoever makes an index may name any file of the machine that opens it."""
    (secret, *_), place = save_pictures(tmp_path / "private"), tmp_path / "index"
    photos = save_pictures(tmp_path / "photos")
    search("build", f"--model={of_pixels}", f"--images={tmp_path / 'photos'}", f"--output={place}")
    query = (
        "query",
        f"--index={place}",
        "a",
        "--format=html",
        f"--output={tmp_path / 'page.html'}",
    )
    search(*query)
    monkeypatch.chdir(tmp_path / "photos")
    named = "../private/0.png" if relative else f"{tmp_path}/photos/../private/0.png"
    for name in (named, str(secret)):
        (place / "image.json").write_text(json.dumps([name, *map(str, photos[1:])]))
        card = json.loads((place / "index.json").read_text())
        (place / "index.json").write_text(json.dumps(card | {"checksums": {}}))
        with pytest.raises(SystemExit, match=r"0.png is outside of .*photos, the folder of the"):
            search(*query)


@pytest.mark.parametrize(
    ("side", "missing", "options"),
    [
        ("text", "image", ["--images=PHOTOS"]),
        ("text", "image", ["--images=PHOTOS", "--captions=PHOTOS/notes.txt"]),
        ("image", "text", ["--captions=PHOTOS/notes.txt"]),
    ],
)
def test_a_model_without_a_side_is_refused_before_anything_is_written(
    of_pixels, search, tmp_path, side, missing, options
):
    save_pictures(tmp_path / "photos")
    options = [each.replace("PHOTOS", str(tmp_path / "photos")) for each in options]
    output = f"--output={tmp_path / 'index'}"
    with pytest.raises(SystemExit, match=f"has no {missing} side, only {side}: omit --"):
        search("build", f"--model={of_pixels}/{side}", *options, output)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
    assert "index in" in search("build", f"--model={of_pixels}", *options, output)


def test_pictures_that_cannot_be_read_are_left_out_of_a_folder(of_pixels, search, tmp_path):
    paths = save_pictures(tmp_path / "photos", count=5)
    paths[0].write_bytes(b"")
    paths[4].write_bytes(paths[4].read_bytes()[:-900])
    printed = search(
        "build", f"--model={of_pixels}", f"--images={tmp_path / 'photos'}", "--part_size=2",
        f"--output={tmp_path / 'index'}",
    )  # fmt: skip
    assert "images: 3 items" in printed
    assert "left out because they cannot be read: 2; " in printed
    assert "files other than images: 1 (.txt 1)" in printed
    index = xmodal.Index.open(tmp_path / "index")
    faults = index.galleries["image"].left_out
    assert set(faults) == {str(paths[0]), str(paths[4])}
    assert faults[str(paths[0])] == "not an image, but an empty file"
    gallery = index.galleries["image"]
    assert gallery.names == [str(paths[n]) for n in (2, 1, 3)]
    expected = index.model.embed_images(gallery.names)
    assert abs(expected[0] - expected[1]).max() > 1e-3
    np.testing.assert_allclose(gallery.vectors, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match=r"Image 1 \(.*0.png\) cannot be embedded"):
        xmodal.Index.build(index.model, images=[paths[1], paths[0]])


def test_a_folder_without_a_readable_picture(of_pixels, search, tmp_path):
    for path in save_pictures(tmp_path / "photos", count=2):
        path.write_bytes(b"")
    with pytest.raises(
        SystemExit, match="None of the 2 images can be read; the first is .*png: not"
    ):
        search(
            "build", f"--model={of_pixels}", f"--images={tmp_path / 'photos'}",
            f"--output={tmp_path / 'index'}",
        )  # fmt: skip
    assert not (tmp_path / "index").exists()


def test_pictures_of_a_dataset_are_embedded_as_its_evaluation_does(of_pixels):
    pixels = draw_noise(2)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    stored = []
    for each in pixels:
        file = io.BytesIO()
        PIL.Image.fromarray(each).save(file, "PNG", exif=exif)
        stored.append(file.getvalue())
    split = types.SimpleNamespace(
        name="photos",
        split="test",
        image_ids=np.arange(2),
        labels={},
        pictures=lambda rows: np.array(stored, object)[rows],
    )
    model = xmodal.load(of_pixels)
    index = xmodal.Index.build(model, images=items.from_split(split, features=False))
    images = index.galleries["image"]
    assert images.names == ["photos test 0", "photos test 1"]
    np.testing.assert_array_equal(images.vectors, model.embed_images(pixels))
    assert (images.vectors != model.embed_images(stored)).any()
    hits = index.query(image=stored[1], upright=False)
    assert hits == index.query(image=pixels[1])  # Both scores are 1 to float32's rounding.


def test_a_dataset_that_changed_after_the_build_shows_no_pictures(monkeypatch):
    split = types.SimpleNamespace(
        name="photos", split="test", image_ids=np.array([7, 4]), labels={}
    )
    monkeypatch.setattr(items, "open_split", lambda section: split)
    shown = command._Pictures(IndexGallery(["photos test 4"], np.ones((1, 2)), dataset={}), "image")
    for row in (0, 2):
        with pytest.raises(xmodal.UserError, match=f"no 'photos test 4' at position {row}: the da"):
            shown(Hit(1, row, "photos test 4", 0.5))


def test_a_picture_of_an_unread_format_is_to_be_converted(tmp_path):
    path = tmp_path / "phone.HEIC"
    with pytest.raises(xmodal.UserError, match=r"phone.HEIC cannot be read .*No such file"):
        command._open(path)
    path.write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(
        xmodal.UserError, match=r"phone.HEIC cannot be read .*; convert it to one of"
    ):
        command._open(path)


def test_names_of_pictures_need_not_be_utf8(of_pixels, search, tmp_path):
    (path, *_), index = save_pictures(tmp_path / "photos", count=1), tmp_path / "index"
    named = os.fsdecode(os.path.join(os.fsencode(path.parent), b"bad\xff.png"))
    path.rename(named)
    folder = f"--images={path.parent}"
    search("build", f"--model={of_pixels}", folder, f"--output={index}")
    query = ("query", f"--index={index}", f"--image={named}")
    escaped = f"{path.parent}/bad\\udcff.png"
    assert escaped in search(*query)
    assert json.loads(search(*query, "--format=json"))["hits"][0]["item"] == named
    for output_format in ("table", "json", "html"):
        output = tmp_path / f"hits.{output_format}"
        search(*query, f"--format={output_format}", f"--output={output}")
        # A page shows the names of files without their folders.
        shown = escaped if output_format != "html" else "bad\\udcff.png"
        assert shown in output.read_text()


@pytest.mark.slow
def test_the_items_of_a_dataset(of_pixels, few_shapes, search, tmp_path):
    index = tmp_path / "index"
    printed = search(
        "build", f"--model={of_pixels}", "--dataset=crisscrossed_shapes",
        f"--data_dir={few_shapes}", f"--output={index}",
    )  # fmt: skip
    assert "images: 25 items" in printed
    assert "captions: 125 items" in printed
    page_file = tmp_path / "new/page.html"
    search("query", f"--index={index}", "a", "--top=2", "--format=html", f"--output={page_file}")
    text = page_file.read_text()
    assert text.count("data:image/jpeg") == 2
    assert text.count('<p class="text">crisscrossed_shapes test') == 2
