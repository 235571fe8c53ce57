"""The base builder of all datasets, which checks, counts and hashes the records of splits."""

import abc
import contextlib
import functools
import inspect
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import filelock
import tensorflow_datasets as tfds
from absl import logging

from data_prep.building import folder_key
from data_prep.building.record_check import BuildReport, PartedRecords, RecordCheck
from data_prep.building.record_counts import LeftOut, Record, counts_table
from data_prep.captioned_images.hub_datasets import local_folder
from xmodal.core.errors import UnexpectedFilesError

_LOG_SECONDS = 10


class _DatasetInfo(tfds.core.DatasetInfo):
    """Information that no bucket of TFDS has: a search would leave a temporary folder behind."""

    def initialize_from_bucket(self) -> None:
        """Finds nothing, see above."""


def configs(**descriptions: str) -> list[tfds.core.BuilderConfig]:
    """Returns builder configs by name, with their descriptions."""
    return [
        tfds.core.BuilderConfig(name=name, description=text) for name, text in descriptions.items()
    ]


class RandomAccessBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Builder whose records can be read by index, in ArrayRecord unless requested otherwise.

    The order of training examples is a permutation of record numbers, so TFDS's default format
    (TFRecord, sequential) would not work.

    `MANUAL_DOWNLOAD_INSTRUCTIONS` is the section "Files" of the README beside the builder.

    A subclass returns the records of its splits from `_splits`, including unusable ones. These are
    listed in `left_out.csv`, in the folder of the dataset, or above it if the build fails.
    `info.metadata` of a dataset holds `kept`, `left_out`, `parts` (see
    `BuildReport.metadata`) and `split_hashes`, split -> hash (see
    `SplitHash`).

    Attributes:
      HOMEPAGE: homepage of the dataset.
      MIN_KEPT: share of the records of every split that must be usable.
      MOST_LOST: share of all records that may be unusable; for data without published counts.
      CHECK_IMAGES: whether images are decoded once as a check; not needed for rendered images.
      UPRIGHT: whether images are rotated according to their EXIF orientation. Published datasets
        keep their files, since published models ignore it.
      UNIQUE_IDS: features with ids that occur once in a split.
      READ_IN_PARTS: whether Beam workers can build it. If so, `_splits` returns `PartedRecords`
        where `in_parts` is true.
      OWN_FILES: whether all its configs read any folder of a user; every state of every folder is
        then stored separately.

    Args:
      file_format: how TFDS stores records.
      min_kept: replaces `MIN_KEPT`, and then `MOST_LOST` does not count.
    """

    HOMEPAGE: ClassVar[str] = ""
    MIN_KEPT: ClassVar[float] = 1.0
    MOST_LOST: ClassVar[float] = 1.0
    CHECK_IMAGES: ClassVar[bool] = True
    UPRIGHT: ClassVar[bool] = False
    UNIQUE_IDS: ClassVar[tuple[str, ...]] = ("image_id", "caption_ids")
    READ_IN_PARTS: ClassVar[bool] = False
    OWN_FILES: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # `data_prep.BUILDERS` finds a class; TFDS has some of the names for datasets of its own.
        super().__init_subclass__(skip_registration=True, **kwargs)
        readme = pathlib.Path(inspect.getfile(cls)).with_name("README.md")
        if "MANUAL_DOWNLOAD_INSTRUCTIONS" not in cls.__dict__ and readme.exists():
            _, _, files = readme.read_text(encoding="utf-8").partition("\n## Files\n")
            cls.MANUAL_DOWNLOAD_INSTRUCTIONS = files.partition("\n## ")[0].strip() or None

    def __init__(
        self, *, file_format: str | None = None, min_kept: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(file_format=file_format or "array_record", **kwargs)
        self.allow_missing = min_kept is not None
        self.min_kept = self.MIN_KEPT if min_kept is None else min_kept
        self.in_parts = False
        self._report: BuildReport
        self._hashes: dict[str, str] = {}
        self._parted: dict[str, PartedRecords] = {}

    @classmethod
    def reads_own_files(cls, config: str | None) -> bool:
        """Returns whether a builder config reads any folder of a user, see `OWN_FILES`."""
        del config
        return cls.OWN_FILES

    @classmethod
    def data_dir_of(
        cls, config: str | None, data_dir: str | None, manual_dir: str | None
    ) -> str | None:
        """Returns the folder of a dataset of these files: `data_dir` unless they are a user's.

        Args:
          config: builder config; None for all.
          data_dir: where datasets are stored; None for TFDS's default.
          manual_dir: folder of the manually downloaded files, see `hub_datasets.local_folder`.

        Raises:
          FileNotFoundError: the folder does not exist, and the location depends on it.
          UnexpectedFilesError: `data_dir` is inside the folder, likewise.
        """
        if not cls.reads_own_files(config) or not manual_dir:
            return data_dir
        return folder_key.place_of(pathlib.Path(local_folder(manual_dir)), data_dir)

    @abc.abstractmethod
    def _splits(
        self, folder: pathlib.Path
    ) -> Mapping[str, Iterable[Record | LeftOut] | PartedRecords]:
        """The records of every split.

        Args:
          folder: the manually downloaded files.

        Returns:
          Split -> its records in any order. `image` of an example with pixels is the encoded file,
          as bytes or as an open file.

        Raises:
          FileNotFoundError: a file is missing.
          UnexpectedFilesError: the files are not those of the dataset.
        """

    def _features(self) -> tfds.features.FeaturesDict:
        """The features of a record, for builders without an `_info` of their own."""
        raise NotImplementedError

    def _metadata(self) -> dict[str, Any]:
        """Entries of `info.metadata` that are known before a build."""
        return {}

    def _info(self) -> tfds.core.DatasetInfo:
        package = self.get_metadata()
        return _DatasetInfo(
            builder=self,
            description=package.description,
            citation=package.citation,
            features=self._features(),
            homepage=self.HOMEPAGE or None,
            metadata=tfds.core.MetadataDict(self._metadata()),
        )

    def _as_dataset(
        self, split: Any, decoders: Any = None, read_config: Any = None, shuffle_files: bool = False
    ) -> Any:
        """The records for `tfds.load`, in their order; TFDS reads ArrayRecord only by number."""
        import tensorflow as tf

        raw = tfds.decode.DeserializeMethod.RAW_BYTES
        source = self.as_data_source(split, deserialize_method=raw)
        records = tf.data.Dataset.from_generator(
            lambda: iter(source), output_signature=tf.TensorSpec((), tf.string)
        )
        read = functools.partial(self.info.features.deserialize_example, decoders=decoders)
        return records.map(read, num_parallel_calls=tf.data.AUTOTUNE)

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        folder = "."
        if self.MANUAL_DOWNLOAD_INSTRUCTIONS:
            try:
                folder = dl_manager.manual_dir
            except AssertionError as error:  # TFDS's error lists the files to download.
                raise FileNotFoundError(str(error)) from error
        try:
            splits = self._splits(pathlib.Path(folder))
        except FileNotFoundError as error:
            wanted = inspect.cleandoc(self.MANUAL_DOWNLOAD_INSTRUCTIONS or "")
            raise FileNotFoundError(f"{error}\n\n{wanted}".strip()) from error
        return {split: self._generate_examples(split, own) for split, own in splits.items()}

    def _generate_examples(self, split: str, records: Any) -> Any:
        """Returns the usable records of a split, or a `beam.PTransform` to them."""
        if isinstance(records, PartedRecords):
            self._parted[split] = records
            return records.transform(self._check, self._parts_of(split))
        return self._usable(split, records)

    def _usable(self, split: str, records: Iterable[Record | LeftOut]) -> Iterator[Record]:
        """Yields the usable records of a split, and accounts for the others."""
        check = self._check
        logging.info("Preparing %s, split %s, in %s.", self._title, split, self.data_dir)
        self._report.start(split)
        for seen, record in enumerate(records):
            logging.log_every_n_seconds(
                logging.INFO, "%s, split %s: %d records.", _LOG_SECONDS, self._title, split, seen
            )
            usable, entry = check(record)
            self._report.add(split, entry)
            if usable is not None:
                yield usable
        self._hashes[split] = self._report.finish(split)

    def _parts_of(self, split: str) -> pathlib.Path:
        return pathlib.Path(self.data_path) / "parts" / split

    def _download_and_prepare(self, dl_manager: Any, download_config: Any) -> None:
        # TFDS calls this in a temporary folder `incomplete.<random>_<version>`, which it renames
        # after success and removes after failure, so on failure the list of left-out records moves
        # up one folder.
        folder = pathlib.Path(self.data_path)
        listed = folder.parent / "left_out.csv"
        listed.unlink(missing_ok=True)
        self._report = BuildReport(folder / listed.name, self._title, self._check)
        self.in_parts = bool(download_config.beam_options or download_config.beam_runner)
        try:
            with _claimed(folder, f"incomplete.*_{self.version}"):
                super()._download_and_prepare(dl_manager, download_config)
                for split, records in self._parted.items():
                    self._report.start(split)
                    for entry in records.entries(self._parts_of(split)):
                        self._report.add(split, entry)
                    self._hashes[split] = self._report.finish(split)
                if self._parted:
                    shutil.rmtree(self._parts_of(""))
            self._check_share()
        except BaseException as error:
            if self._report.path.exists():
                self._report.path.replace(listed)
                if isinstance(error, UnexpectedFilesError):
                    table = counts_table(self._report.metadata())
                    raise UnexpectedFilesError(
                        f"{error}\n{table}\nEvery record that was left out: {listed}"
                    ) from error
            raise

    def _check_share(self) -> None:
        counts = self._report.metadata()
        kept = counts["kept"]
        lost = {split: sum(reasons.values()) for split, reasons in counts["left_out"].items()}
        missing, total = sum(lost.values()), sum(lost.values()) + sum(kept.values())
        fault = ""
        if not self.allow_missing and missing > self.MOST_LOST * total:
            share = f"more than {self.MOST_LOST:.4g} of them"
            fault = f"{missing:,} of {total:,} records cannot be used, {share}"
        elif short := [s for s in kept if kept[s] < self.min_kept * (kept[s] + lost[s])]:
            share = "all" if self.min_kept == 1 else f"{self.min_kept:.4g}"
            fault = f"keeps less than {share} of the records of {', '.join(short)}"
        if fault:
            raise UnexpectedFilesError(
                f"{self._title}: {fault}; correct the files, download the rest, or accept it with "
                "--allow_missing or --min_kept of data_prep.build"
            )
        if kept:
            self.info.metadata.update(counts, split_hashes=self._hashes)

    @property
    def _check(self) -> RecordCheck:
        return RecordCheck(self.info.features, self.UNIQUE_IDS, self.CHECK_IMAGES, self.UPRIGHT)

    @property
    def _title(self) -> str:
        return f"{self.name}/{self.builder_config.name}"


@contextlib.contextmanager
def _claimed(folder: pathlib.Path, others: str) -> Iterator[None]:
    """Locks a folder while it is in use, and removes those of killed processes.

    A killed process could neither rename nor remove its folder, which would stay forever, with
    gigabytes of a build.

    Args:
      folder: new folder of this process.
      others: pattern of the names of folders for the same purpose beside it.
    """
    for lock in folder.parent.glob(f"{others}/.lock"):
        # Another process may be using it, or another user.
        with contextlib.suppress(OSError), filelock.FileLock(lock, timeout=0):
            logging.info("Removing %s, left by a killed process.", lock.parent)
            shutil.rmtree(lock.parent, ignore_errors=True)
    with filelock.FileLock(folder / ".lock"):
        try:
            yield
        finally:
            (folder / ".lock").unlink(missing_ok=True)
