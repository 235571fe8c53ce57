"""Prepared datasets, read by record number."""

import contextlib
import dataclasses
import functools
import inspect
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow_datasets as tfds
from etils import epath

import data_prep
from data_prep.build import build
from data_prep.building.folder_key import is_below
from xmodal.core.config import lookup, suggest
from xmodal.core.errors import UnexpectedFilesError, UserError
from xmodal.core.progress import progress
from xmodal.data import columns as columns_lib
from xmodal.data.data_config import DataConfig, parse

# Records per read of a whole split.
_BLOCK = 1024


class DatasetMissingError(UserError):
    """A dataset is not prepared, and preparing it needs files that the user has to download."""


class Source:
    """Records of one split, by number.

    Attributes:
      columns: every column of the dataset by name.
    """

    def __init__(self, config: DataConfig, split: str, needs: Collection[str] = ()) -> None:
        """Opens a split.

        Args:
          config: names the dataset and its folders.
          split: split in TFDS notation: `train`, `train[:10%]`, `train+validation`.
          needs: columns that the caller reads.

        Raises:
          UserError: the dataset has no such split, or lacks a column.
          DatasetMissingError: the dataset is not prepared and cannot be built.
        """
        self._builder = open_builder(config)
        self._config, self._split = config, split
        self.columns = columns_lib.describe(self._builder.info.features)
        check_columns(config, self.columns, needs)
        if self._builder.info.file_format == tfds.core.FileFormat.TFRECORD:
            raise UserError(
                f"{self.folder} has TFRecords, which are not read by number: prepare it with `tfds "
                "build --file_format=array_record`, or convert it with `tfds convert_format`."
            )
        raw = tfds.decode.DeserializeMethod.RAW_BYTES
        try:
            found = self._builder.as_data_source(split, deserialize_method=raw)
        except ValueError as error:
            raise UserError(
                f"dataset {config.dataset} has no split {split!r}; known: "
                f"{', '.join(self._builder.info.splits)}, and parts and sums of these, such as "
                "train[:10%], train[100:200] and train+validation. Name one in --split, "
                "`train_split`, or an evaluator's `split` (during training) and `final_split`."
            ) from error
        self._records = found.data_source

    def __len__(self) -> int:
        return len(self._records)

    @property
    def folder(self) -> epath.Path:
        """Folder of the prepared dataset."""
        return self._builder.data_path

    @property
    def is_complete(self) -> bool:
        """Whether the dataset is the complete published one."""
        return bool(self._metadata.get("complete", True))

    @property
    def left_out(self) -> int:
        """Records of the whole split that could not be used when the dataset was prepared."""
        reasons = self._metadata.get("left_out", {})
        return sum(sum(reasons.get(name, {}).values()) for name in whole_splits(self._split))

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of the split; see `split_hashes`."""
        known, name = self._metadata.get("split_hashes", {}), self._builder.info.full_name
        splits = whole_splits(self._split)
        return {f"{name} {split}": known.get(split, "unknown") for split in splits}

    @property
    def label_names(self) -> dict[str, list[str]]:
        """Names of the values of label columns by column, if the builder has them."""
        features, metadata = self._builder.info.features, self._metadata
        classes = {
            name: list(feature.names)
            for name, feature in features.items()
            if isinstance(feature, tfds.features.ClassLabel) and feature.names
        }
        return classes | {name: list(metadata[name]) for name in self.columns if name in metadata}

    @property
    def _metadata(self) -> Mapping[str, Any]:
        return self._builder.info.metadata or {}

    def read(self, rows: np.ndarray) -> Sequence[bytes]:
        """Reads the records int64 [N] as serialized `tf.train.Example`s."""
        return columns_lib.read_records(self._records, rows, self.folder)

    def get(self, names: Iterable[str], rows: np.ndarray | None = None) -> dict[str, Any]:
        """Returns columns of records; reads records only if images are requested.

        Args:
          names: columns of the dataset.
          rows: record numbers int64 [N]; None for all.

        Returns:
          [N, *shape] by name, or `RaggedColumn` if the length varies; texts and encoded images are
          bytes.
        """
        wanted = {name: self.columns[name] for name in names}
        if wanted.keys() <= self._small_columns.keys():
            return columns_lib.take(self._table, wanted, rows)
        rows = np.arange(len(self)) if rows is None else rows
        stored = columns_lib.parse(self.read(rows), wanted)
        return {name: column.decode(*stored[name]) for name, column in wanted.items()}

    @property
    def _small_columns(self) -> dict[str, columns_lib.Column]:
        return {
            name: column
            for name, column in self.columns.items()
            if name != "image"
            and not column.is_picture
            and not (column.is_ragged and len(column.shape) > 1)
        }

    @functools.cached_property
    def _table(self) -> pa.Table:
        path = self.folder / f"values-{self._split}.parquet"
        return columns_lib.load_table(path, self._small_blocks())

    def _small_blocks(self) -> Iterator[Mapping[str, columns_lib.Stored]]:
        # Records include their images, so this takes long, but happens only once per dataset.
        what = f"Reading the columns without images of {self._config.dataset} {self._split}"
        with progress(what, len(self)) as advance:
            for start in range(0, len(self), _BLOCK):
                rows = np.arange(start, min(start + _BLOCK, len(self)))
                yield columns_lib.parse(self.read(rows), self._small_columns)
                advance(len(rows))


def read_captions(config: Mapping[str, Any] | DataConfig, split: str) -> list[str]:
    """Returns every caption of a split, in the order of its records.

    Raises:
      UserError: the dataset has no such split, or no captions.
      DatasetMissingError: it is not prepared.
    """
    captions = Source(parse(config), split, ["captions"]).get(["captions"])["captions"]
    return columns_lib.decode_texts(captions.values)


def needed_columns(config: DataConfig) -> list[str]:
    """Returns the columns that training batches and evaluation splits of a config read."""
    needs = ["image_id"]
    needs += ["image"] if config.image is not None else []
    needs += ["tags"] if config.image is not None and config.image.tags else []
    needs += ["captions", "caption_ids"] if config.text is not None else []
    return [*needs, *config.labels]


def check_columns(config: DataConfig, columns: Mapping[str, Any], needs: Collection[str]) -> None:
    """Raises an error if the records of a dataset lack a column.

    Args:
      config: names the dataset.
      columns: columns of the dataset by name.
      needs: columns that the caller reads.
    """
    if missing := [name for name in needs if name not in columns]:
        raise UserError(
            f"dataset {config.dataset} (config {config.config}) has no {', '.join(missing)}; its "
            f"columns are {', '.join(columns)}. Choose another config.data.config, or set "
            "config.data.image and config.model.image, or text, to None for a modality that it "
            "lacks. Sentence pairs are read by evaluators of type 'embedding_similarity'."
        )


def describe_builder(config: DataConfig) -> tfds.core.DatasetBuilder:
    """Returns the builder of a dataset, which knows its columns even before preparation."""
    if config.dataset not in data_prep.BUILDERS:
        return _open_prepared(config)
    cls = data_prep.builder_class(config.dataset)
    lookup("config.data.config", config.config, cls.builder_configs)
    folders = config.data_dir or None, config.manual_dir or None
    try:
        data_dir = cls.data_dir_of(config.config, *folders)
    except (OSError, UnexpectedFilesError) as error:
        raise UserError(f"config.data.manual_dir: {error}") from error
    return cls(config=config.config, data_dir=data_dir)


def _open_prepared(config: DataConfig) -> tfds.core.DatasetBuilder:
    """Returns a dataset that TFDS has prepared; its code is not needed."""
    place = config.data_dir or None
    for name in (f"{config.dataset}/{config.config}", config.dataset):
        with contextlib.suppress(tfds.core.DatasetNotFoundError):
            return tfds.core.read_only_builder.builder_from_files(name, data_dir=place)
    where = f"--data_dir={place}" if place else "the default folder"
    raise UserError(
        f"Unknown name {config.dataset!r} in config.data.dataset; "
        f"{suggest([config.dataset], data_prep.BUILDERS)} Nor has TFDS prepared a dataset of that "
        f"name in {where}: `tfds build {config.dataset}` prepares one that it knows."
    )


def follows_files(config: DataConfig) -> bool:
    """Returns whether the dataset changes whenever the files in `manual_dir` change."""
    if config.dataset not in data_prep.BUILDERS:
        return False
    cls = data_prep.builder_class(config.dataset)
    return bool(config.manual_dir) and cls.reads_own_files(config.config)


def check_outside(config: DataConfig, folder: str) -> None:
    """Checks that a folder that is written is not among the files that a dataset follows."""
    if follows_files(config) and is_below(folder, pathlib.Path(config.manual_dir)):
        raise UserError(
            f"{folder} is inside config.data.manual_dir={config.manual_dir!r}, which is another "
            "dataset whenever a file in it changes: use a --workdir outside of it."
        )


def title_of(config: DataConfig) -> str:
    """Returns the display name of a dataset: that of the user's folder, if it has one."""
    own = follows_files(config)
    return pathlib.Path(config.manual_dir).resolve().name if own else config.dataset


def is_prepared(config: DataConfig) -> bool:
    """Returns whether a dataset can be read without building it first."""
    return describe_builder(config).is_prepared()


def open_builder(config: DataConfig) -> tfds.core.DatasetBuilder:
    """Opens a prepared dataset; builds it first if that needs no download.

    The built-in dataset needs no files; the others need `manual_dir`.

    Raises:
      UserError: dataset or builder config are unknown (the known ones are listed), or the
        files are not the published dataset, or cannot be written.
      DatasetMissingError: says which files to put where, and which command to run.
    """
    builder = describe_builder(config)
    if builder.is_prepared():
        return builder
    needs_files = bool(builder.MANUAL_DOWNLOAD_INSTRUCTIONS)
    if needs_files and not config.manual_dir:
        raise DatasetMissingError(_remedy(builder))
    data_dir, manual_dir = config.data_dir or None, config.manual_dir or None
    try:
        return build(config.dataset, config.config, data_dir=data_dir, manual_dir=manual_dir)
    except OSError as error:
        # A folder that cannot be made is not found, either.
        if isinstance(error, FileNotFoundError) and needs_files:
            raise DatasetMissingError(_remedy(builder, str(error))) from error
        raise UserError(
            f"{builder.data_path} cannot be made: {error}. Check config.data.manual_dir, and that "
            "config.data.data_dir can be written."
        ) from error


def open_beside(config: DataConfig, builder_config: str, split: str) -> Source | None:
    """Opens a split of another builder config of a dataset; None if the dataset has no such split.

    Its records, such as rated pairs, are about items of the config itself. They are built first if
    necessary, see `open_builder`.
    """
    known = config.dataset in data_prep.BUILDERS
    if not known or builder_config not in data_prep.builder_class(config.dataset).builder_configs:
        return None
    config = dataclasses.replace(config, config=builder_config)
    return Source(config, split) if split in open_builder(config).info.splits else None


def split_hashes(config: Mapping[str, Any] | DataConfig, split: str) -> dict[str, str]:
    """Returns the hash of the records of a prepared split, which is stored with results on it.

    Args:
      config: see `DataConfig`.
      split: its name; a part of a split has the hash of the whole split, a sum those of all.

    Returns:
      `DATASET/CONFIG/VERSION SPLIT` -> 64 hexadecimal digits, or "unknown" if it was prepared
      before hashes were introduced.
    """
    return Source(parse(config), split).hashes


def whole_splits(split: str) -> list[str]:
    """Returns the splits that a split in TFDS notation names or is part of."""
    return [part.partition("[")[0].strip() for part in split.split("+")]


def _remedy(builder: tfds.core.DatasetBuilder, missing: str = "") -> str:
    name, config = builder.name, builder.builder_config.name
    instructions = inspect.cleandoc(builder.MANUAL_DOWNLOAD_INSTRUCTIONS)
    if instructions not in missing:  # Builders in data_prep name all files themselves.
        missing = (
            f"{missing}\ndataset {name} (config {config}) is not prepared in {builder.data_dir}. "
            f"Its files must be downloaded manually:\n\n{instructions}"
        ).strip()
    return (
        f"{missing}\n\nThen set config.data.manual_dir to that folder, or prepare the dataset "
        "first with\n"
        f"  python -m data_prep.build --dataset={name} --config={config} "
        f"--data_dir={builder.data_dir_root} --manual_dir=FOLDER"
    )
