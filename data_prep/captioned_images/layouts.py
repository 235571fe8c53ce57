"""Common layouts of pictures and captions, all with the same interface."""

import abc
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import (
    BY_CONTENT,
    CaptionedPicture,
    without_copies,
)
from data_prep.captioned_images.picture_files import MissingPicture, PictureFiles
from data_prep.captioned_images.unused_files import without_row
from data_prep.reading.karpathy import read_karpathy_file
from data_prep.reading.split_names import check_split_names, split_of_name
from xmodal.core.errors import UnexpectedFilesError


class Layout(abc.ABC):
    """Pictures and captions of a folder; can be read repeatedly in the same order.

    Attributes:
      TITLE: the layout in words.
    """

    TITLE: ClassVar[str]

    @abc.abstractmethod
    def describe(self) -> dict[str, str]:
        """Describes `files`, and `columns` of a table, in words."""

    def parts(self) -> Sequence[Any]:
        """Returns the arguments for `read`, in order: one part, unless there are shards."""
        return [None]

    @abc.abstractmethod
    def read(self, part: Any) -> Iterator[CaptionedPicture | LeftOut]:
        """Yields the pictures of a part, and entries that cannot be used."""

    def rows_lost(self, unusable: Sequence[str]) -> tuple[int, int] | None:
        """Returns how many rows are not used, and how many there are; None if a row is a picture.

        Args:
          unusable: names of pictures that are not used.
        """
        del unusable
        return None

    def explain(self, fault: LeftOut) -> str:
        """Describes the first picture or row that is not used, so that a user finds the cause."""
        return f"the first is {fault.where}{f' ({fault.detail})' if fault.detail else ''}"

    def pictures(self) -> Iterator[CaptionedPicture | LeftOut]:
        """Yields all pictures, and entries that cannot be used."""
        return itertools.chain.from_iterable(map(self.read, self.parts()))


class KarpathyLayout(Layout):
    """A file in Karpathy's format, `dataset_NAME.json`.

    Args:
      folder: folder of the user.
      path: path of the file.
      with_splits: whether its splits are used, and their names must be known.

    Raises:
      UnexpectedFilesError: the file is damaged or in another format, or a split is not known.
    """

    TITLE = "a file in Karpathy's format"

    def __init__(self, folder: pathlib.Path, path: pathlib.Path, *, with_splits: bool) -> None:
        self._path, self._files = path, PictureFiles(folder)
        self._splits, self._with_splits = read_karpathy_file(path, has_ids=False), with_splits
        if with_splits:
            sizes = {name: len(photographs) for name, photographs in self._splits.items()}
            check_split_names(sizes, str(path), BY_CONTENT)
        # All images may have been put into one folder; if not, a name alone may be another's.
        self._has_folders = any(
            self._files.knows(f"{photograph.folder}/{photograph.name}")
            for photograph in itertools.chain.from_iterable(self._splits.values())
            if photograph.folder
        )

    def describe(self) -> dict[str, str]:
        """See `Layout`."""
        return {"files": f"{self._path.name}, {len(self._files):,} images"}

    def read(self, part: None) -> Iterator[CaptionedPicture | LeftOut]:
        """See `Layout`."""
        del part
        found = self._joined()
        for picture, _ in found.values():
            different, copies = without_copies(picture.captions, picture.name)
            yield from copies
            yield dataclasses.replace(picture, captions=different)
        place = self._path.relative_to(self._files.folder).as_posix()
        yield from without_row(self._files, {place, *found})

    def _joined(self) -> dict[str, tuple[CaptionedPicture, bool]]:
        """Pictures with the captions of all their entries, and whether each is missing, by name.

        Raises:
          UnexpectedFilesError: a picture is in two splits.
        """
        found: dict[str, tuple[CaptionedPicture, bool]] = {}
        for name, photographs in self._splits.items():
            split = split_of_name(name) if self._with_splits else ""
            for photograph in photographs:
                folder = photograph.folder if self._has_folders else ""
                place = f"{folder}/{photograph.name}" if folder else photograph.name
                image = self._files.find(place, self._path)
                own = CaptionedPicture(image.where, (), split, image.read)
                first, is_missing = found.get(image.where, (own, isinstance(image, MissingPicture)))
                if first.split != split and not is_missing:
                    raise UnexpectedFilesError(
                        f"{self._path}: {place} is in the split {split or 'none'!r}, but in "
                        f"{first.split or 'none'!r} before; an image must be in only one split"
                        f"{BY_CONTENT}"
                    )
                captions = [text.strip() for _, text in photograph.captions if text.strip()]
                joined = dataclasses.replace(first, captions=(*first.captions, *captions))
                found[image.where] = joined, is_missing
        return found
