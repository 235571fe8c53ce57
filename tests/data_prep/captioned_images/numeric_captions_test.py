"""Captions that are only numbers are an error."""

import pytest

from data_prep.captioned_images.numeric_captions import check_captions
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import UnexpectedFilesError


def _write(folder, rows, header=("image", "caption")):
    folders.write_images(folder, range(len(rows)))
    folders.write_csv(folder / "all.csv", [header, *rows])


@pytest.mark.parametrize("values", ["01234", ["1.0", "2.5", "-3", "4", "5"]])
def test_a_column_of_numbers_is_no_caption(tmp_path, values):
    rows = [[folders.name(n), value, f"caption {n}"] for n, value in enumerate(values)]
    _write(tmp_path, rows, ("image", "caption", "words"))
    with pytest.raises(UnexpectedFilesError, match="'caption' has only numbers .*are 'words'"):
        folders.read_layout(tmp_path)
    found, _ = folders.read_layout(tmp_path, captions=("words",))
    assert found == {f"images/{folders.name(n)}": [f"caption {n}"] for n in range(5)}


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
    _write(tmp_path, [["p000.png", "42"], ["p001.png", "forty-two"], ["p002.png", ""]])
    assert folders.read_layout(tmp_path)[0]["images/p000.png"] == ["42"]
