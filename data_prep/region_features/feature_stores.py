"""Region features by image, in the files that detectors write: TSV, HDF5, LMDB, or one per image.

    stores = FeatureStores(folder / "features")
    stores.read(391895)  # float [R, C]

Files are indexed once and read in place. R may differ between images.
"""

import abc
import base64
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from data_prep.reading.text_lines import TextLines
from xmodal.core.errors import UnexpectedFilesError, UserError
from xmodal.core.folders import files_below
from xmodal.core.untrusted import pickles, saved_arrays

TAGS = "predictions.tsv"
"""Name of the files of detected objects, which have no features."""

_NUMBER = re.compile(r"(\d+)(\.\w+)*$", re.ASCII)
_ERRORS = (*pickles.DAMAGE, *saved_arrays.DAMAGE)


def number_of_name(name: str) -> int | None:
    """The number at the end of a name: 391895 for `COCO_val2014_000000391895.jpg`; else None."""
    match = _NUMBER.search(name)
    return int(match[1]) if match else None


class FeatureStore(abc.ABC):
    """A file or folder with the features of several images."""

    @abc.abstractmethod
    def places(self) -> Iterator[tuple[str, Any]]:
        """Yields the name of every image, and the location of its features."""

    @abc.abstractmethod
    def read(self, place: Any) -> np.ndarray:
        """Features at a location, [R, C]; raises errors of many kinds if they are damaged."""


class FeatureStores:
    """The features of all stores in a folder and its subfolders, by image number.

    Args:
      folder: with files `*.tsv` (also `*.tsv.0`, ...), `*.hdf5` or `*.h5`, `data.mdb` of LMDB, or
        `*.npz` and `*.npy`, one per image.

    Raises:
      FileNotFoundError: there are none of these.
      UnexpectedFilesError: a store cannot be read, or an image has two different features.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._places: dict[int, tuple[FeatureStore, Any]] = {}
        for path, store in _open_stores(folder):
            try:
                for name, place in store.places():
                    self._add(path, name, store, place)
            except UnexpectedFilesError:
                raise
            except _ERRORS as error:
                raise UnexpectedFilesError(f"{path} cannot be read: {error}") from error
        if not self._places:
            raise FileNotFoundError(f"{folder} has no image features")

    def _add(self, path: pathlib.Path, name: str, store: FeatureStore, place: Any) -> None:
        number = number_of_name(name)
        if number is None:
            raise UnexpectedFilesError(f"{path}: the name {name!r} contains no image number")
        entry = store, place
        first, first_place = known = self._places.setdefault(number, entry)
        if known is not entry and not np.array_equal(first.read(first_place), store.read(place)):
            raise UnexpectedFilesError(
                f"{path}: image {number} appears twice with different features: keep one of them"
            )

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def read(self, number: int) -> np.ndarray | str:
        """Features of an image, floating point [R, C], or the reason why they are rejected."""
        store, place = self._places[number]
        try:
            features = np.asarray(store.read(place))
        except _ERRORS as error:
            return f"{type(error).__name__}: {error}"
        if features.ndim != 2 or features.dtype.kind != "f" or not len(features):
            return (
                f"{features.dtype} {list(features.shape)}, not floating point [regions, channels]"
            )
        return features


def _open_stores(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, FeatureStore]]:
    for path in files_below(folder, "*.tsv", "*.tsv.[0-9]*"):
        if path.name != TAGS:
            yield path, _Tsv(path)
    for path in files_below(folder, "*.hdf5", "*.h5"):
        yield path, _Hdf5(path)
    for path in files_below(folder, "data.mdb"):
        yield path, _Lmdb(path)
    yield folder, _Arrays(files_below(folder, "*.npz", "*.npy"))


class _Tsv(FeatureStore):
    """Lines written by common detectors, without a header; boxes and features in base64.

    Bottom-up attention (tools/generate_tsv.py): image_id, image_w, image_h, num_boxes, boxes,
    features. LXMERT: img_id, img_h, img_w, objects_id, objects_conf, attrs_id, attrs_conf,
    num_boxes, boxes, features. VinVL: image id, num_boxes, features.
    """

    # Columns of a line -> that of the number of boxes.
    _COLUMNS: Mapping[int, int] = {3: 1, 6: 3, 10: 7}

    def __init__(self, path: pathlib.Path) -> None:
        self._lines = TextLines(path)

    def places(self) -> Iterator[tuple[str, int]]:
        for line in range(len(self._lines)):
            name = self._lines.start_of(line, 256).partition(b"\t")[0].decode()
            if name not in ("image_id", "img_id"):
                yield name, line

    def read(self, place: int) -> np.ndarray:
        fields = self._lines[place].split(b"\t")
        if len(fields) not in self._COLUMNS:
            raise ValueError(f"{len(fields)} fields, not {', '.join(map(str, self._COLUMNS))}")
        return _of_item({"num_boxes": fields[self._COLUMNS[len(fields)]], "features": fields[-1]})


class _Hdf5(FeatureStore):
    """One file, in any of three layouts.

    - `391895_features` [R, C] of every image (Meshed-Memory Transformer), or `391895`;
    - `image_features` [N, R, C], or [M, C] of all regions with `pos_boxes` [N, 2], the start and
      stop of each image, and `NAME_imgid2idx.pkl` beside NAME.hdf5 (bottom-up-attention-vqa);
    - `features` [N, R, C] with `image_ids` [N], padded by zeros (VisDial).
    """

    _SUFFIX = "_features"

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise UnexpectedFilesError(f"{path} is truncated or not HDF5: {error}") from error

    def places(self) -> Iterator[tuple[str, Any]]:
        shared = next((n for n in ("image_features", "features") if n in self._file), None)
        if shared is None:
            for key in self._file:
                if key.endswith(self._SUFFIX) or key.isdecimal():
                    yield key.removesuffix(self._SUFFIX), (key, ())
            return
        bounds = self._read("pos_boxes")
        for name, row in self._rows():
            yield name, (shared, row if bounds is None else slice(*map(int, bounds[row])))

    def read(self, place: tuple[str, Any]) -> np.ndarray:
        name, rows = place
        if isinstance(rows, slice) and not 0 <= rows.start <= rows.stop <= len(self._file[name]):
            raise ValueError(f"its regions {rows.start} to {rows.stop} are not in {name}")
        features = self._file[name][rows]
        used = np.flatnonzero(features.any(1))
        return features[: used[-1] + 1 if len(used) else 0]

    def _read(self, name: str) -> np.ndarray | None:
        return self._file[name][()] if name in self._file else None

    def _rows(self) -> list[tuple[str, int]]:
        """The name and the row of every image."""
        if (ids := self._read("image_ids")) is not None:
            if ids.dtype.kind not in "iu":
                raise UnexpectedFilesError(f"{self._path}: image_ids are {ids.dtype}, not integers")
            return [(str(number), row) for row, number in enumerate(ids)]
        path = self._path.with_name(f"{self._path.stem}_imgid2idx.pkl")
        if not path.exists():
            raise UnexpectedFilesError(
                f"{self._path} does not say which images its features belong to: it has no "
                f"image_ids, and there is no {path.name} beside it"
            )
        with path.open("rb") as file:
            rows = pickles.load(file, encoding="bytes")
        return [(str(number), int(row)) for number, row in rows.items()]


class _Lmdb(FeatureStore):
    """One pickled dict per image, as in ViLBERT and MMF; `keys` lists the images."""

    def __init__(self, path: pathlib.Path) -> None:
        try:
            import lmdb
        except ModuleNotFoundError as error:
            raise UserError(f"{path} needs lmdb: pip install 'xmodal[convert]'.") from error
        try:
            self._file = lmdb.open(str(path.parent), readonly=True, lock=False).begin()
        except lmdb.Error as error:
            raise UnexpectedFilesError(f"{path} is truncated or not an LMDB: {error}") from error

    def places(self) -> Iterator[tuple[str, bytes]]:
        for key in self._file.cursor().iternext(values=False):
            if key != b"keys":
                yield key.decode(), key

    def read(self, place: bytes) -> np.ndarray:
        item = pickles.loads(self._file.get(place) or b"", encoding="bytes")
        # Pickles of Python 2 have bytes for names.
        names = {key.decode() if isinstance(key, bytes) else key: key for key in item}
        return _of_item({name: item[key] for name, key in names.items()})


class _Arrays(FeatureStore):
    """A file per image: .npz of bottom-up-attention.pytorch (`x`, also with the channels first) or
    self-critical.pytorch (`feat`), or .npy.
    """

    _NAMES = ("x", "feat", "features")

    def __init__(self, paths: list[pathlib.Path]) -> None:
        self._paths = paths

    def places(self) -> Iterator[tuple[str, pathlib.Path]]:
        for path in self._paths:
            yield path.stem, path

    def read(self, place: pathlib.Path) -> np.ndarray:
        loaded = saved_arrays.load_arrays(place)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            name = next((name for name in self._NAMES if name in loaded.files), None)
            if name is None:
                raise ValueError(f"it contains none of {', '.join(self._NAMES)}")
            item = {"features": loaded[name]}
            if "num_bbox" in loaded.files:
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
        numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
        if not count or count < 0 or len(numbers) % count:
            raise ValueError(f"{len(numbers):,} numbers of {count} regions")
        return numbers.reshape(count, -1)
    features = np.asarray(features)
    if count is not None and len(features) < count:
        raise ValueError(f"{len(features)} regions instead of {count}")
    return features[:count]
