"""The builder behind every dataset: it checks, counts and hashes the records of its splits."""

import contextlib
import errno
import inspect
import os
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds
from absl import logging

from data_prep.building.id_set import IdSet
from data_prep.building.image_check import BadImageError, checked_image
from data_prep.building.records import BuildReport, LeftOut, Record, short_splits
from data_prep.building.split_hash import SplitHash
from data_prep.building.unfinished import claimed
from data_prep.errors import UnexpectedFilesError
from data_prep.published import Figure

_LOG_SECONDS = 10.0


class RandomAccessBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Builder whose records can be read by index: ArrayRecord unless another format is asked for.

    The order of training examples is a permutation of record numbers, so the format that TFDS
    takes by default (TFRecord, sequential) would not do.

    A subclass gives the records of its splits by `_splits`, with those that it cannot use. These
    are listed in `left_out.csv`, in the folder of the dataset, or above it if the build fails.
    `info.metadata` of a dataset holds `kept`, `left_out`, `converted` (see
    `BuildReport.metadata`) and `split_hashes`, split -> hash (see `SplitHash`).

    Attributes:
      HOMEPAGE: of the dataset.
      MIN_KEPT: share of the records of every split that must be usable.
      CHECK_IMAGES: whether images are decoded once; not needed for those that were just drawn.
      UNIQUE_IDS: features with ids that come once in a split.
      REFERS_TO: datasets whose ids rows of this one refer to, as `dataset/config`, the cheapest to
        read first.

    Args:
      file_format: how TFDS stores records.
      min_kept: in place of `MIN_KEPT`.
    """

    HOMEPAGE: ClassVar[str] = ""
    MIN_KEPT: ClassVar[float] = 1.0
    CHECK_IMAGES: ClassVar[bool] = True
    UNIQUE_IDS: ClassVar[tuple[str, ...]] = ("image_id", "caption_ids")
    REFERS_TO: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, *, file_format: str | None = None, min_kept: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(file_format=file_format or "array_record", **kwargs)
        self.min_kept = self.MIN_KEPT if min_kept is None else min_kept
        self._report: BuildReport
        self._claims = contextlib.ExitStack()

    @classmethod
    def published_figures(cls, config: str) -> Mapping[str, Figure]:
        """Returns published figures of a builder config, see `data_prep.published`."""
        del config
        return {}

    @classmethod
    def data_dir_of(cls, data_dir: str | None, manual_dir: str | None) -> str | None:
        """Returns where a dataset of these files is kept: `data_dir` unless it depends on them.

        Args:
          data_dir: where datasets are kept; None for TFDS's own place.
          manual_dir: folder of the files that were fetched by hand.

        Raises:
          FileNotFoundError: there is no such folder, and the place depends on it.
        """
        del manual_dir
        return data_dir

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        """The records of every split.

        Args:
          folder: the files that were fetched by hand.

        Returns:
          Split -> its records in any order. `image` of an example with pixels is the encoded file,
          as bytes or as an open file.

        Raises:
          FileNotFoundError: a file is missing.
          UnexpectedFilesError: the files are not those of the dataset.
        """
        raise NotImplementedError

    def _features(self) -> tfds.features.FeaturesDict:
        """The features of a record."""
        raise NotImplementedError

    def _metadata(self) -> dict[str, Any]:
        """Entries of `info.metadata` that are known before a build."""
        return {}

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=self._features(),
            homepage=self.HOMEPAGE or None,
            metadata=tfds.core.MetadataDict(self._metadata()),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[Record]]:
        folder = "."
        if self.MANUAL_DOWNLOAD_INSTRUCTIONS:
            try:
                folder = dl_manager.manual_dir
            except AssertionError as error:  # how TFDS names the files to fetch
                raise FileNotFoundError(str(error)) from error
        try:
            splits = self._splits(pathlib.Path(folder))
        except FileNotFoundError as error:
            wanted = inspect.cleandoc(self.MANUAL_DOWNLOAD_INSTRUCTIONS or "")
            raise FileNotFoundError(f"{error}\n\n{wanted}".strip()) from error
        return {split: self._generate_examples(split, rows) for split, rows in splits.items()}

    def _generate_examples(
        self, split: str, records: Iterable[Record | LeftOut]
    ) -> Iterator[Record]:
        """Yields the records of a split that can be used, and accounts for the others."""
        report, split_hash = self._report, SplitHash(self.info.features)
        keys, ids = IdSet("key"), {name: IdSet(name) for name in self.UNIQUE_IDS}
        kept = 0
        report.start(split)
        logging.info("Preparing %s, split %s, in %s.", self._title, split, self.data_dir)
        started = logged = time.monotonic()
        for seen, record in enumerate(records):
            if (now := time.monotonic()) - logged > _LOG_SECONDS:
                logged = now
                logging.info(
                    "%s, split %s: %s records, %.0f per second.",
                    *(self._title, split, f"{seen:,}", seen / (now - started)),
                )
            converted = ""
            if not isinstance(record, LeftOut):
                key, example = record
                where = f"{self._title}, split {split}, record {key}"
                keys.add(key, where)
                for name in ids.keys() & example.keys():
                    ids[name].add_all(example[name], where)
                record, converted = self._usable(key, example, split_hash)
            if isinstance(record, LeftOut):
                report.leave_out(split, record)
                continue
            report.keep(split, converted)
            kept += 1
            yield record
        if not kept:  # TFDS writes no empty split
            raise UnexpectedFilesError(f"{self._title} has no usable record in split {split}")
        self.info.metadata.setdefault("split_hashes", {})[split] = split_hash.hexdigest()

    def _usable(
        self, key: int | str, example: dict[str, Any], split_hash: SplitHash
    ) -> tuple[Record | LeftOut, str]:
        """One example as it is stored, and the former format of its image if that was converted."""
        captions, converted = example.get("captions"), ""
        if captions is not None and not (len(captions) and all(map(str.strip, captions))):
            return LeftOut(str(key), "empty caption"), ""
        try:
            if self._has_pixels:
                image = example["image"]
                encoded = image if isinstance(image, bytes) else image.read()
                if self.CHECK_IMAGES:
                    checked = checked_image(encoded)
                    encoded, converted = checked.encoded, checked.converted
                example = example | {"image": encoded}
            split_hash.add(example)
        except BadImageError as error:
            # A fetched image knows its place, which says more than the number of its row.
            where = getattr(example["image"], "where", str(key))
            return LeftOut(where, error.reason, error.detail), ""
        except (UnicodeEncodeError, OverflowError) as error:
            return LeftOut(str(key), "value that cannot be stored", str(error)), ""
        return (key, example), converted

    def download_and_prepare(self, **settings: Any) -> None:
        """Prepares the dataset, and removes leftovers of killed builds of the same config."""
        with contextlib.ExitStack() as self._claims:
            super().download_and_prepare(**settings)

    def _download_and_prepare(self, dl_manager: Any, download_config: Any) -> None:
        # TFDS calls this inside a folder of its own, renames the folder after success and removes
        # it after failure: then the list of records left out moves up.
        folder = pathlib.Path(self.data_path)
        self._claims.enter_context(claimed(folder))
        listed = folder.parent / "left_out.csv"
        listed.unlink(missing_ok=True)
        try:
            with BuildReport(folder / listed.name) as self._report:
                super()._download_and_prepare(dl_manager, download_config)
            self._check_share()
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._report.path.replace(listed)
            if isinstance(error, RuntimeError) and (full := os.strerror(errno.ENOSPC)) in str(
                error
            ):
                # ArrayRecord's writer does not say it as Python does.
                raise OSError(errno.ENOSPC, full, str(folder.parent)) from error
            if not isinstance(error, UnexpectedFilesError) or not self._report.has_left_out:
                raise
            raise UnexpectedFilesError(
                f"{error}\n{self._report.text()}\nEvery record that was left out: {listed}"
            ) from error

    def _check_share(self) -> None:
        counts = self._report.metadata()
        if short := short_splits(counts, self.min_kept):
            raise UnexpectedFilesError(
                f"{self._title} keeps less than {self.min_kept:.4g} of the records of "
                f"{', '.join(short)}; fetch the rest, or accept it with --min_kept of "
                "data_prep.build"
            )
        if counts["kept"]:
            self.info.metadata.update(counts)

    @property
    def _has_pixels(self) -> bool:
        return isinstance(dict(self.info.features.items()).get("image"), tfds.features.Image)

    @property
    def _title(self) -> str:
        return f"{self.name}/{self.builder_config.name}" if self.builder_config else self.name
