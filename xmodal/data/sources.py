"""Prepared datasets, read by record number, and the small files cached beside them."""

import contextlib
import inspect
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath

import data_prep
from data_prep.build import build
from data_prep.errors import UnexpectedFilesError
from xmodal.config import UserError, lookup
from xmodal.data.config import DataConfig, parse

# Of a dataset that was prepared before hashes were kept.
UNKNOWN_HASH = "unknown"

# Records of one read when a whole split is walked through.
_BLOCK = 1024


class DatasetMissingError(UserError):
    """A dataset is not prepared, and preparing it needs files that a person has to fetch."""


class Source:
    """Serialised examples of one split of a captioned dataset, by record number."""

    def __init__(self, config: DataConfig, split: str) -> None:
        self._builder = open_builder(config, config.config)
        known = self._builder.info.splits
        if split.split("[")[0] not in known:
            raise UserError(
                f"dataset {config.dataset} has no split {split!r}; known: {', '.join(known)}"
            )
        self._split = split
        self._records = self._builder.as_data_source(
            split, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES
        ).data_source
        features = self._builder.info.features
        self._image = dict(features.items()).get("image")
        if config.image is not None and self._image is None:
            raise UserError(
                f"dataset {config.dataset} (config {config.config}) has no images; set "
                "config.data.image and config.model.image to None, or config.data.config=images"
            )

    def __len__(self) -> int:
        return len(self._records)

    @property
    def folder(self) -> epath.Path:
        """Folder of the prepared dataset."""
        return self._builder.data_path

    @property
    def is_complete(self) -> bool:
        """Whether the dataset is the published one; else it is what was at hand of it."""
        return bool((self._builder.info.metadata or {}).get("complete", True))

    @property
    def left_out(self) -> int:
        """Records of the whole split that could not be used when the dataset was prepared."""
        reasons = (self._builder.info.metadata or {}).get("left_out", {})
        return sum(reasons.get(self._split.partition("[")[0], {}).values())

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of the split; see `split_hashes`."""
        return hashes_of(self._builder, self._split)

    @property
    def has_pixels(self) -> bool:
        """Whether images are encoded pictures and not stored features."""
        return isinstance(self._image, tfds.features.Image)

    def read(self, indices: np.ndarray) -> np.ndarray:
        """Reads the records int64 [N] as serialised `tf.train.Example`s, bytes [N]."""
        return np.array(self._records.__getitems__(indices.tolist()), dtype=object)

    def parse(self, records: tf.Tensor, *, image: bool) -> dict[str, tf.Tensor]:
        """Parses serialised examples, strings [N].

        Returns:
          `image_id` int32 [N]; `captions` (strings) and `caption_ids` (int32), ragged [N, C]; and
          if asked for `image`: encoded files, strings [N], or features float16 [N, ...].
        """
        spec = {
            "image_id": tf.io.FixedLenFeature([], tf.int64),
            "captions": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
            "caption_ids": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        }
        if image:
            spec["image"] = tf.io.FixedLenFeature([], tf.string)
        parsed = tf.io.parse_example(records, spec)
        parsed["image_id"] = tf.cast(parsed["image_id"], tf.int32)
        parsed["caption_ids"] = tf.cast(parsed["caption_ids"], tf.int32)
        if image and not self.has_pixels:
            features = tf.io.decode_raw(parsed["image"], self._image.tf_dtype)
            parsed["image"] = tf.reshape(features, [-1, *self._image.shape])
        return parsed

    def walk(self) -> Iterator[dict[str, Any]]:
        """Parses the whole split in record order and in blocks, without the images."""
        for start in range(0, len(self), _BLOCK):
            block = self.read(np.arange(start, min(start + _BLOCK, len(self))))
            yield self.parse(tf.constant(block), image=False)

    def caption_counts(self) -> np.ndarray:
        """Number of captions of every record, int64 [N]; found once and cached as a file."""
        path = self.folder / f"caption_counts-{self._split}.npy"
        if not path.exists():
            counts = [block["captions"].row_lengths().numpy() for block in self.walk()]
            with replacing(path) as file:
                np.save(file, np.concatenate(counts))
        with path.open("rb") as file:
            return np.load(file)


def open_builder(config: DataConfig, builder_config: str) -> tfds.core.DatasetBuilder:
    """Opens a prepared dataset, after building it if everything it needs is at hand.

    That is so for the embedded dataset, and for the others where `manual_dir` is given.

    Args:
      config: names the dataset and its folders.
      builder_config: TFDS builder config to open.

    Raises:
      UserError: dataset or builder config are unknown (the known ones are listed), or files do
        not hold the published dataset, or cannot be written.
      DatasetMissingError: with what to put where and the command to run.
    """
    lookup("config.data.dataset", config.dataset, data_prep.BUILDERS)
    cls = data_prep.builder_class(config.dataset)
    if builder_config not in cls.builder_configs:
        raise UserError(
            f"dataset {config.dataset} has no builder config {builder_config!r}; "
            f"known: {', '.join(cls.builder_configs)}"
        )
    builder = cls(config=builder_config, data_dir=config.data_dir or None)
    if builder.is_prepared():
        return builder
    if cls.MANUAL_DOWNLOAD_INSTRUCTIONS and not config.manual_dir:
        raise DatasetMissingError(_remedy(builder))
    folders = {"data_dir": config.data_dir or None, "manual_dir": config.manual_dir or None}
    try:
        return build(config.dataset, builder_config, **folders)
    except FileNotFoundError as error:
        raise DatasetMissingError(f"{error}\n{_remedy(builder)}") from error
    except UnexpectedFilesError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{builder.data_path} cannot be written: {error}") from error


def split_hashes(config: Mapping[str, Any] | DataConfig, split: str) -> dict[str, str]:
    """The hash of the records of a prepared split, which goes wherever numbers on it go.

    Args:
      config: see `DataConfig`.
      split: its name; of a part of it, the hash of the whole is given.

    Returns:
      `DATASET/CONFIG/VERSION SPLIT` -> 64 hexadecimal digits, or `UNKNOWN_HASH`.
    """
    config = parse(config)
    return hashes_of(open_builder(config, config.config), split)


def hashes_of(builder: tfds.core.DatasetBuilder, split: str) -> dict[str, str]:
    """As `split_hashes`, of a dataset that is open."""
    whole = split.partition("[")[0]
    known = (builder.info.metadata or {}).get("split_hashes", {})
    return {f"{builder.info.full_name} {whole}": known.get(whole, UNKNOWN_HASH)}


@contextlib.contextmanager
def replacing(path: epath.Path) -> Iterator[BinaryIO]:
    """Writes a file beside `path` and renames it at the end, so nobody ever reads half of it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remedy(builder: tfds.core.DatasetBuilder) -> str:
    name, config = builder.name, builder.builder_config.name
    instructions = inspect.cleandoc(builder.MANUAL_DOWNLOAD_INSTRUCTIONS)
    return (
        f"dataset {name} (config {config}) is not prepared in {builder.data_dir}. "
        f"Its files have to be fetched by hand:\n\n{instructions}"
        "\n\nThen set config.data.manual_dir to that folder, or prepare the dataset first with\n"
        f"  python -m data_prep.build --dataset={name} --config={config} "
        f"--data_dir={builder.data_dir_root} --manual_dir=FOLDER"
    )
