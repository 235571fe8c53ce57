"""Endings of pictures are read, or listed with the reason."""

import io

import numpy as np
import PIL.features
import PIL.Image
import pytest

from data_prep.building.image_check import checked_image
from xmodal.core.errors import BadImageError
from xmodal.core.picture_names import (
    IMAGE_ENDINGS,
    fault_of_file,
    is_picture,
    is_unread_picture,
    read_picture,
)
from xmodal.data.pixels.images import decode_image

_OF_ENDING = {".jpe": "JPEG", ".jfif": "JPEG", ".jpg": "JPEG", ".tif": "TIFF"}


@pytest.mark.parametrize("ending", IMAGE_ENDINGS)
def test_every_ending_that_is_read_can_be_decoded(ending):
    file = io.BytesIO()
    kind = _OF_ENDING.get(ending, ending[1:].upper())
    PIL.Image.new("RGB", (16, 16), (200, 30, 60)).save(file, kind)
    encoded = checked_image(file.getvalue()).encoded
    assert np.abs(decode_image(encoded)[8, 8].astype(int) - (200, 30, 60)).max() < 6
    assert is_picture(f"a{ending.upper()}")
    assert not is_unread_picture(f"a{ending}")


def test_a_file_is_a_picture_or_has_a_fault(tmp_path):
    for name in ("a.jpg", "b.HEIC", "c.txt", "d"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "e.jpg").symlink_to(tmp_path / "nowhere")
    faults = {path.name: fault_of_file(path) for path in sorted(tmp_path.iterdir())}
    assert faults["b.HEIC"].startswith("unread ending: .heic; convert it to one of .jpg, ")
    assert faults == {
        "a.jpg": "",
        "b.HEIC": faults["b.HEIC"],
        "c.txt": "unread ending: .txt",
        "d": "unread ending: none",
        "e.jpg": "broken link: it leads to no file",
    }
    assert is_picture("x.avif") == PIL.features.check("avif") != is_unread_picture("x.avif")
    assert read_picture(tmp_path / "a.jpg") == b"content"
    with pytest.raises(BadImageError, match="broken link"):
        read_picture(tmp_path / "e.jpg")
    with pytest.raises(BadImageError, match="unreadable file"):
        read_picture(tmp_path)
