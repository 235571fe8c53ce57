"""Tables by number: shifted names and columns of numbers are errors."""

import json

import pytest

from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.row_numbers import check_captions
from data_prep.errors import UnexpectedFilesError
from tests.data_prep.captioned_images import own_folders as folders


def _write(folder, files, rows, header=("image", "caption")):
    (folder / "images").mkdir()
    for name in files:
        (folder / "images" / name).write_bytes(b"a picture")
    folders.write_csv(folder / "all.csv", [header, *rows])


def _texts(folder, files, numbers):
    for name in files:
        (folder / name).write_bytes(b"a picture")
    for number in numbers:
        (folder / f"img{number}.txt").write_text(f"caption {number}")


def _karpathy(folder, files, numbers):
    for name in files:
        (folder / name).write_bytes(b"a picture")
    images = [
        {"filename": f"img{n}.jpg", "imgid": n, "sentences": [{"sentid": n, "raw": f"number {n}"}]}
        for n in numbers
    ]
    (folder / "dataset.json").write_text(json.dumps({"images": images}))


def _pictures(folder, **options):
    return list(find_layout(folder, ReadingOptions(**options)).pictures())


@pytest.mark.parametrize("spell", ["{}", "{}.jpg", "images/{}.jpg", "{:05d}", "img_{}.jpg"])
@pytest.mark.parametrize("first", [1, -1])
def test_images_that_are_counted_from_another_number(tmp_path, spell, first):
    """Rows 2 to 5, with images from 3 to 6 or from 1 to 4."""
    name = {"{:05d}": "{:05d}.jpg", "img_{}.jpg": "img_{}.jpg"}.get(spell, "{}.jpg")
    rows = [[spell.format(n), f"caption {n}"] for n in range(2, 6)]
    _write(tmp_path, [name.format(n + first) for n in range(2, 6)], rows)
    lost, more = (2, 6) if first == 1 else (5, 1)
    with pytest.raises(UnexpectedFilesError, match="2 to 5.*may be shifted") as error:
        _pictures(tmp_path)
    error.match(rf"but no image for .*(\b|_)0*{lost}\b.*, and no caption for images/.*{more}\.jpg:")


@pytest.mark.parametrize("first", [1, -1])
@pytest.mark.parametrize("write", [_texts, _karpathy])
def test_texts_and_karpathys_format_are_checked_too(tmp_path, write, first):
    write(tmp_path, [f"img{n + first}.jpg" for n in range(2, 6)], range(2, 6))
    with pytest.raises(
        UnexpectedFilesError, match=r"no image for img.\.(txt|jpg),.* may be shifted"
    ):
        _pictures(tmp_path)


@pytest.mark.parametrize("write", [_texts, _karpathy])
def test_a_lost_image_is_no_shift(tmp_path, write):
    write(tmp_path, [f"img{n}.jpg" for n in (2, 3, 5, 9)], range(2, 6))
    assert _pictures(tmp_path)


@pytest.mark.parametrize(
    ("files", "numbers"),
    [
        (range(6), range(1, 5)),  # more images at both ends
        (range(2, 5), range(1, 6)),  # fewer images at both ends
        ([0, 2, 3, 9], [0, 1, 2, 3]),  # a stray image
        ([30, 571, 1001], [20, 30, 571]),  # a part of images named by id
    ],
)
def test_other_gaps_are_no_shift(tmp_path, files, numbers):
    _write(tmp_path, [f"{n}.jpg" for n in files], [[n, f"caption {n}"] for n in numbers])
    assert _pictures(tmp_path)


@pytest.mark.parametrize("values", ["01234", ["1.0", "2.5", "-3", "4", "5"]])
def test_a_column_of_numbers_is_no_caption(tmp_path, values):
    rows = [[f"{n}.jpg", value, f"words {n}"] for n, value in enumerate(values)]
    _write(tmp_path, [f"{n}.jpg" for n in range(5)], rows, ("image", "caption", "words"))
    with pytest.raises(UnexpectedFilesError, match="'caption' has only numbers .*are 'words'"):
        _pictures(tmp_path)
    captions = [picture.captions for picture in _pictures(tmp_path, captions=("words",))]
    assert captions == [(f"words {n}",) for n in range(5)]


@pytest.mark.parametrize("captions", [["7", "12"], ["0 0.5 0.25", "3 -1.5 2"], ["犬", "1", "2"]])
def test_captions_of_numbers_are_an_error_if_all_are(captions):
    if "犬" in captions:
        check_captions([captions[:1], captions[1:]])
        return
    with pytest.raises(UnexpectedFilesError, match=f"only numbers .'{captions[0]}', "):
        check_captions([captions, captions[1:]])


def test_boxes_beside_images_are_no_captions(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.png").write_bytes(folders.picture(number))
        (tmp_path / f"{number}.txt").write_text(f"0 0.{number} 0.5 0.1 0.1\n")
    with pytest.raises(UnexpectedFilesError, match="as of classes or boxes"):
        folders.prepare(tmp_path)


def test_a_number_may_be_one_of_the_captions(tmp_path):
    rows = [["0.jpg", "42"], ["1.jpg", "forty-two"], ["2.jpg", ""]]
    _write(tmp_path, ["0.jpg", "1.jpg", "2.jpg"], rows)
    assert _pictures(tmp_path)
