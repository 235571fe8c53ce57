"""Parts of stand-ins: images, texts, archives and tables."""

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import PIL.Image

Images = Callable[[int], bytes]


def photograph(number: int) -> bytes:
    """A small valid JPEG, different for every number."""
    pixels = np.random.default_rng(number).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).resize((24, 18)).save(file, "JPEG")
    return file.getvalue()


def text_of(number: int) -> str:
    return f'Bild {number}, "naïve" # {number}'


def write_zip(path: Any, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_csv(path: Any, rows: list[dict[str, Any]], delimiter: str = ",") -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    encoded = text.getvalue().encode()
    path.write_bytes(gzip.compress(encoded, mtime=0) if path.suffix == ".gz" else encoded)
