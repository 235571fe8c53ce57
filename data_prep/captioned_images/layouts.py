"""Common layouts of pictures and captions, all with the same interface."""

import abc
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import CaptionedPicture, without_copies
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.unused_files import without_row
from data_prep.reading.karpathy import in_splits, read_karpathy


class Layout(abc.ABC):
    """Pictures and captions of a folder; can be read repeatedly in the same order."""

    @abc.abstractmethod
    def describe(self) -> dict[str, str]:
        """Describes `files`, and `columns` of a table, in words."""

    def parts(self) -> Sequence[Any]:
        """Returns the arguments for `read`, in order: one part, unless there are shards."""
        return [None]

    @abc.abstractmethod
    def read(self, part: Any) -> Iterator[CaptionedPicture | LeftOut]:
        """Yields the pictures of a part, and entries that cannot be used."""

    def pictures(self) -> Iterator[CaptionedPicture | LeftOut]:
        """Yields all pictures, and entries that cannot be used."""
        return itertools.chain.from_iterable(map(self.read, self.parts()))


class KarpathyLayout(Layout):
    """A file in Karpathy's format, `dataset_NAME.json`.

    Args:
      folder: folder of the user.
      path: path of the file.
    """

    def __init__(self, folder: pathlib.Path, path: pathlib.Path) -> None:
        self._path, self._files = path, PictureFiles(folder)
        self._splits = in_splits(read_karpathy(path.parent, path.stem.removeprefix("dataset_")))

    def describe(self) -> dict[str, str]:
        """See `Layout`."""
        return {"files": f"{self._path.name}, {len(self._files):,} images"}

    def read(self, part: None) -> Iterator[CaptionedPicture | LeftOut]:
        """See `Layout`."""
        del part
        used = {self._path.relative_to(self._files.folder).as_posix()}
        for split, photographs in self._splits.items():
            for photograph in photographs:
                captions = [text.strip() for _, text in photograph.captions if text.strip()]
                different, copies = without_copies(captions, photograph.name)
                image = self._files.find(photograph.name, self._path)
                used.add(image.where)
                yield from copies
                yield CaptionedPicture(image.where, different, split, image.read)
        yield from without_row(self._files, used)
