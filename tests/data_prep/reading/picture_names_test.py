"""Endings of pictures are read, or listed with the reason."""

import io

import numpy as np
import PIL.features
import PIL.Image
import pytest

from data_prep.building.image_check import checked_image
from data_prep.reading.picture_names import is_unread_picture
from xmodal.core.untrusted.picture_formats import IMAGE_ENDINGS, is_picture
from xmodal.data.pixels.images import decode_image

_OF_ENDING = {".jpe": "JPEG", ".jfif": "JPEG", ".jpg": "JPEG", ".tif": "TIFF"}


@pytest.mark.parametrize("ending", IMAGE_ENDINGS)
def test_every_ending_that_is_read_can_be_decoded(ending):
    file = io.BytesIO()
    kind = _OF_ENDING.get(ending, ending[1:].upper())
    PIL.Image.new("RGB", (16, 16), (200, 30, 60)).save(file, kind)
    encoded = checked_image(file.getvalue())
    assert np.abs(decode_image(encoded)[8, 8].astype(int) - (200, 30, 60)).max() < 6
    assert is_picture(f"a{ending.upper()}")
    assert not is_unread_picture(f"a{ending}")
