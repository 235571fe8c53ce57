"""All roads to a picture read the same formats, start no program and decode no bomb."""

import io
import os
import struct
import zlib

import numpy as np
import PIL.Image
import pytest

from data_prep.building.image_check import checked_image
from xmodal.apps.annotate.split_items import _as_picture
from xmodal.apps.search import _open
from xmodal.core.page import to_data_uri
from xmodal.core.untrusted.picture_formats import open_picture
from xmodal.data.pixels.images import decode_image, decode_upright
from xmodal.train.tensorboard.drawing import _open as draw

_EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


def _read_file(tmp_path, encoded):
    (tmp_path / "a.jpg").write_bytes(encoded)
    return _open(tmp_path / "a.jpg")


_READERS = {
    "open_picture": open_picture,
    "checked_image": checked_image,
    "decode_image": decode_image,
    "decode_upright": decode_upright,
    "page": to_data_uri,
    "tensorboard": draw,
    "annotate": lambda encoded: _as_picture(1, encoded),
}


@pytest.mark.parametrize("name", [*_READERS, "search"])
def test_other_formats_start_no_program(name, tmp_path, monkeypatch):
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/STARTED\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises((ValueError, OSError)):
        _READERS[name](_EPS) if name in _READERS else _read_file(tmp_path, _EPS)
    assert not (tmp_path / "STARTED").exists()


@pytest.mark.parametrize("name", [*_READERS, "search"])
def test_a_bomb_is_refused_from_its_header(name, tmp_path):
    file = io.BytesIO()
    PIL.Image.new("P", (9, 9)).save(file, "PNG", transparency=0)
    small = file.getvalue()
    header = b"IHDR" + struct.pack(">II", 9_000, 8_000) + small[24:29]
    bomb = small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]
    with pytest.raises((ValueError, OSError), match="9,000 x 8,000, more than 67,108,864"):
        _READERS[name](bomb) if name in _READERS else _read_file(tmp_path, bomb)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_the_formats_of_datasets_are_read(kind):
    file = io.BytesIO()
    PIL.Image.fromarray(np.full((5, 7, 3), 99, np.uint8)).save(file, kind)
    assert open_picture(file.getvalue()).size == (7, 5)
    assert decode_image(file.getvalue()).shape == (5, 7, 3)
