"""Region features by image, in the files that detectors write: TSV, or one array per image.

    features = open_features(folder / "features")
    features[391895]()  # float [R, C]

Files are indexed once and read in place. R may differ between images.
"""

import base64
import functools
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np

from data_prep.reading.text_files import files_below
from data_prep.reading.text_lines import TextLines
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.saved_arrays import load_arrays

TAGS = "predictions.tsv"
"""Name of the files of detected objects, which have no features."""

Reader = Callable[[], np.ndarray]
"""Returns the features of an image, [R, C], or raises one of `saved_arrays.DAMAGE`."""

_NUMBER = re.compile(r"(\d+)(\.\w+)*$", re.ASCII)
# Columns of a line -> that of the number of boxes: VinVL, bottom-up attention, LXMERT.
_TSV_COLUMNS = {3: 1, 6: 3, 10: 7}


def number_of_name(name: str) -> int | None:
    """The number at the end of a name: 391895 for `COCO_val2014_000000391895.jpg`; else None."""
    match = _NUMBER.search(name)
    return int(match[1]) if match else None


def open_features(folder: pathlib.Path) -> dict[int, Reader]:
    """Returns the readers of all features in a folder and its subfolders, by image number.

    Args:
      folder: with files `*.tsv` (also `*.tsv.0`, ...), or `*.npz` and `*.npy`, one per image.

    Raises:
      FileNotFoundError: there are none of these.
      UnexpectedFilesError: a name has no number, or an image has two different features.
    """
    found: dict[int, Reader] = {}
    for path in files_below(folder, "*.tsv", "*.tsv.[0-9]*", "*.npz", "*.npy"):
        for name, read in _readers(path):
            number = number_of_name(name)
            if number is None:
                raise UnexpectedFilesError(f"{path}: no image number in {name!r:.80}")
            found.setdefault(number, read)
    if not found:
        raise FileNotFoundError(
            f"{folder} has no image features: *.tsv of a detector, or one .npz or .npy per image; "
            "convert HDF5 and LMDB files to these"
        )
    return found


def _readers(path: pathlib.Path) -> Iterator[tuple[str, Reader]]:
    """Yields the name of every image in a file, and the reader of its features.

    Lines of a TSV have no header, and boxes and features in base64. Bottom-up attention
    (tools/generate_tsv.py): image_id, image_w, image_h, num_boxes, boxes, features. LXMERT: img_id,
    img_h, img_w, objects_id, objects_conf, attrs_id, attrs_conf, num_boxes, boxes, features. VinVL:
    image id, num_boxes, features.
    """
    if path.suffix in (".npz", ".npy"):
        yield path.stem, functools.partial(_of_file, path)
    elif path.name != TAGS:
        lines = TextLines(path)
        for line in range(len(lines)):
            name = lines.start_of(line, 256).partition(b"\t")[0].decode(errors="replace")
            if name not in ("image_id", "img_id"):
                yield name, functools.partial(_of_line, lines, line)


def _of_line(lines: TextLines, number: int) -> np.ndarray:
    fields = lines[number].split(b"\t")
    if len(fields) not in _TSV_COLUMNS:
        raise ValueError(f"{len(fields)} fields, not {', '.join(map(str, _TSV_COLUMNS))}")
    # Some writers of Python 3 left the marks of a bytes literal around it.
    encoded = fields[-1].removeprefix(b"b'").removesuffix(b"'")
    values = np.frombuffer(base64.b64decode(encoded, validate=True), "<f4")
    return values.reshape(int(fields[_TSV_COLUMNS[len(fields)]]), -1)


def _of_file(path: pathlib.Path) -> np.ndarray:
    """An .npy, or the .npz of bottom-up-attention.pytorch (`x`), self-critical.pytorch (`feat`)."""
    loaded = load_arrays(path)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        features = loaded["x" if "x" in loaded else "feat"]
        return features[: int(loaded["num_bbox"]) if "num_bbox" in loaded else None]
