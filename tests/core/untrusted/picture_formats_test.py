"""All roads to a picture read the same formats, start no program and decode no bomb."""

import io
import os
import struct
import zlib

import PIL.Image
import pytest

from data_prep.building.image_check import checked_image
from xmodal.api.search.pictures import for_browsers
from xmodal.core.page import to_data_uri
from xmodal.core.untrusted.picture_formats import open_picture
from xmodal.data.pixels.images import decode_image

_EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


_READERS = {
    "open_picture": open_picture,
    "checked_image": checked_image,
    "decode_image": decode_image,
    "page": to_data_uri,
    "for_browsers": for_browsers,
}


@pytest.mark.parametrize("name", _READERS)
def test_other_formats_start_no_program(name, tmp_path, monkeypatch):
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/STARTED\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises((ValueError, OSError)):
        _READERS[name](_EPS)
    assert not (tmp_path / "STARTED").exists()


@pytest.mark.parametrize("name", _READERS)
def test_a_bomb_is_refused_from_its_header(name):
    file = io.BytesIO()
    PIL.Image.new("P", (9, 9)).save(file, "PNG", transparency=0)
    small = file.getvalue()
    header = b"IHDR" + struct.pack(">II", 9_000, 8_000) + small[24:29]
    bomb = small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]
    with pytest.raises((ValueError, OSError), match="9,000 x 8,000, more than 67,108,864"):
        _READERS[name](bomb)
