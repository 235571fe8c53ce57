"""Indexes of pictures: of folders, lists and datasets."""

import io
import json
import types

import numpy as np
import PIL.Image
import pytest

import xmodal
from xmodal.api.search import items


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


def test_pictures_find_themselves(of_pixels, search, tmp_path):
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


def test_pictures_that_cannot_be_read_are_left_out_of_a_folder(of_pixels, search, tmp_path):
    paths = save_pictures(tmp_path / "photos", count=5)
    paths[0].write_bytes(b"")
    paths[4].write_bytes(paths[4].read_bytes()[:-900])
    printed = search(
        "build", f"--model={of_pixels}", f"--images={tmp_path / 'photos'}",
        f"--output={tmp_path / 'index'}",
    )  # fmt: skip
    assert "images: 3 items" in printed
    assert "left out because they cannot be read: 2; " in printed
    index = xmodal.Index.open(tmp_path / "index")
    gallery = index.galleries["image"]
    assert set(gallery.left_out) == {str(paths[0]), str(paths[4])}
    assert gallery.left_out[str(paths[0])] == "no image, or a damaged one: its format is unknown"
    assert gallery.names == [str(paths[n]) for n in (2, 1, 3)]
    expected = index.model.embed_images(gallery.names)
    np.testing.assert_allclose(gallery.vectors, expected, rtol=1e-5, atol=1e-5)


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
