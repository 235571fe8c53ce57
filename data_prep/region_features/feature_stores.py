"""Region features by image, in the files that detectors write: TSV, HDF5, LMDB, or one per image.

    features = open_features(folder / "features")
    features[391895]()  # float [R, C]

Files are indexed once and read in place. R may differ between images.
"""

import base64
import functools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from data_prep.reading.text_lines import TextLines
from xmodal.core.errors import UnexpectedFilesError, UserError
from xmodal.core.folders import files_below
from xmodal.core.untrusted import pickles, saved_arrays

TAGS = "predictions.tsv"
"""Name of the files of detected objects, which have no features."""
DAMAGE = (*pickles.DAMAGE, *saved_arrays.DAMAGE)
"""Errors of damaged features."""

Reader = Callable[[], np.ndarray]
"""Returns the features of an image, [R, C]; raises one of `DAMAGE` if they are damaged."""

_NUMBER = re.compile(r"(\d+)(\.\w+)*$", re.ASCII)
_SUFFIX = "_features"
# Columns of a line -> that of the number of boxes.
_TSV_COLUMNS = {3: 1, 6: 3, 10: 7}


def number_of_name(name: str) -> int | None:
    """The number at the end of a name: 391895 for `COCO_val2014_000000391895.jpg`; else None."""
    match = _NUMBER.search(name)
    return int(match[1]) if match else None


def open_features(folder: pathlib.Path) -> dict[int, Reader]:
    """Returns the readers of all features in a folder and its subfolders, by image number.

    Args:
      folder: with files `*.tsv` (also `*.tsv.0`, ...), `*.hdf5` or `*.h5`, `data.mdb` of LMDB, or
        `*.npz` and `*.npy`, one per image.

    Raises:
      FileNotFoundError: there are none of these.
      UnexpectedFilesError: a file cannot be read, or an image has two different features.
    """
    found: dict[int, Reader] = {}
    for store, patterns in _STORES.items():
        for path in files_below(folder, *patterns):
            try:
                for name, read in store(path) if path.name != TAGS else ():
                    number = number_of_name(name)
                    if number is None:
                        raise ValueError(f"the name {name!r} contains no image number")
                    first = found.setdefault(number, read)
                    if first is not read and not np.array_equal(first(), read()):
                        raise ValueError(f"image {number} has other features elsewhere: keep one")
            except DAMAGE as error:
                raise UnexpectedFilesError(f"{path} cannot be read: {error}") from error
    if not found:
        raise FileNotFoundError(f"{folder} has no image features")
    return found


def _read_tsv(path: pathlib.Path) -> Iterator[tuple[str, Reader]]:
    """Lines written by common detectors, without a header; boxes and features in base64.

    Bottom-up attention (tools/generate_tsv.py): image_id, image_w, image_h, num_boxes, boxes,
    features. LXMERT: img_id, img_h, img_w, objects_id, objects_conf, attrs_id, attrs_conf,
    num_boxes, boxes, features. VinVL: image id, num_boxes, features.
    """
    lines = TextLines(path)
    for line in range(len(lines)):
        name = lines.start_of(line, 256).partition(b"\t")[0].decode()
        if name not in ("image_id", "img_id"):
            yield name, functools.partial(_of_line, lines, line)


def _of_line(lines: TextLines, number: int) -> np.ndarray:
    fields = lines[number].split(b"\t")
    if len(fields) not in _TSV_COLUMNS:
        raise ValueError(f"{len(fields)} fields, not {', '.join(map(str, _TSV_COLUMNS))}")
    return _of_item({"num_boxes": fields[_TSV_COLUMNS[len(fields)]], "features": fields[-1]})


def _read_hdf5(path: pathlib.Path) -> Iterator[tuple[str, Reader]]:
    """One file, in any of three layouts.

    - `391895_features` [R, C] of every image (Meshed-Memory Transformer), or `391895`;
    - `image_features` [N, R, C], or [M, C] of all regions with `pos_boxes` [N, 2], the start and
      stop of each image, and `NAME_imgid2idx.pkl` beside NAME.hdf5 (bottom-up-attention-vqa);
    - `features` [N, R, C] with `image_ids` [N], padded by zeros (VisDial).
    """
    file = h5py.File(path, "r")
    shared = next((name for name in ("image_features", "features") if name in file), None)
    if shared is None:
        for key in file:
            if key.endswith(_SUFFIX) or key.isdecimal():
                yield key.removesuffix(_SUFFIX), functools.partial(_of_rows, file[key], ())
        return
    bounds = file["pos_boxes"][()] if "pos_boxes" in file else None
    if "image_ids" in file:
        rows = {str(number): row for row, number in enumerate(file["image_ids"][()])}
    else:
        with path.with_name(f"{path.stem}_imgid2idx.pkl").open("rb") as ids:
            rows = {
                str(number): int(row) for number, row in pickles.load(ids, encoding="bytes").items()
            }
    for name, row in rows.items():
        place = row if bounds is None else slice(*map(int, bounds[row]))
        yield name, functools.partial(_of_rows, file[shared], place)


def _of_rows(data: Any, rows: Any) -> np.ndarray:
    if isinstance(rows, slice) and not 0 <= rows.start <= rows.stop <= len(data):
        raise ValueError(f"its regions {rows.start} to {rows.stop} do not exist")
    features = data[rows]
    used = np.flatnonzero(features.any(1))
    return features[: used[-1] + 1 if len(used) else 0]


def _read_lmdb(path: pathlib.Path) -> Iterator[tuple[str, Reader]]:
    """One pickled dict per image, as in ViLBERT and MMF; `keys` lists the images."""
    try:
        import lmdb
    except ModuleNotFoundError as error:
        raise UserError(f"{path} needs lmdb: pip install 'xmodal[convert]'.") from error
    try:
        file = lmdb.open(str(path.parent), readonly=True, lock=False).begin()
    except lmdb.Error as error:
        raise UnexpectedFilesError(f"{path} is truncated or not an LMDB: {error}") from error
    for key in file.cursor().iternext(values=False):
        if key != b"keys":
            yield key.decode(), functools.partial(_of_value, file, key)


def _of_value(file: Any, key: bytes) -> np.ndarray:
    item = pickles.loads(file.get(key), encoding="bytes")
    # Pickles of Python 2 have bytes for names.
    return _of_item({k.decode() if isinstance(k, bytes) else k: each for k, each in item.items()})


def _read_arrays(path: pathlib.Path) -> Iterator[tuple[str, Reader]]:
    yield path.stem, functools.partial(_of_file, path)


def _of_file(path: pathlib.Path) -> np.ndarray:
    """The .npz of bottom-up-attention.pytorch (`x`, also with the channels first) or
    self-critical.pytorch (`feat`), or an .npy.
    """
    loaded = saved_arrays.load_arrays(path)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        item = {"features": loaded[next((n for n in ("x", "feat") if n in loaded), "features")]}
        if "num_bbox" in loaded:
            item["num_boxes"] = loaded["num_bbox"]
            if len(item["features"]) != item["num_boxes"] == item["features"].shape[-1]:
                item["features"] = item["features"].T
    return _of_item(item)


def _of_item(item: Mapping[str, Any]) -> np.ndarray:
    """`features` of a dict: an array with `num_boxes` valid rows, or float32 in base64."""
    features = item["features"]
    count = int(item["num_boxes"]) if "num_boxes" in item else None
    if isinstance(features, bytes | str):
        text = features.encode() if isinstance(features, str) else features
        # Some writers of Python 3 left the marks of a bytes literal around it.
        text = text.removeprefix(b"b'").removesuffix(b"'")
        return np.frombuffer(base64.b64decode(text, validate=True), "<f4").reshape(count or 0, -1)
    features = np.asarray(features)
    if count is not None and len(features) < count:
        raise ValueError(f"{len(features)} regions instead of {count}")
    return features[:count]


_STORES: Mapping[Callable[[pathlib.Path], Iterator[tuple[str, Reader]]], tuple[str, ...]] = {
    _read_tsv: ("*.tsv", "*.tsv.[0-9]*"),
    _read_hdf5: ("*.hdf5", "*.h5"),
    _read_lmdb: ("data.mdb",),
    _read_arrays: ("*.npz", "*.npy"),
}
