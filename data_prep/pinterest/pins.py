"""The pins of Pinterest40M: an image with the sentences of several people, one JSON line each."""

import array
import dataclasses
import json
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from data_prep import schema
from data_prep.building.record_counts import LeftOut
from data_prep.linked_captions import LinkedRow, LinkList
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.pickles import DAMAGE, load

_NUMBER = re.compile(r"(\d+)\.\w+$", re.ASCII)
# Ids of captions: the number of the file, then the position of the sentence in its file.
_SENTENCE_BITS = 24


def read_pins(path: pathlib.Path, file_number: int) -> Iterator[LinkedRow | LeftOut]:
    """Reads one of the published files.

    Args:
      path: `pin_2016_v1_0000.npy` or another.
      file_number: the number in that name.

    Yields:
      The pins with their valid sentences; entries that are not pins, sentences that are not text.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: the file is damaged.
    """
    sentence_id = file_number << _SENTENCE_BITS
    for number, entry in enumerate(read_objects(path)):
        where = f"{path.name} entry {number}"
        fields = entry if isinstance(entry, dict) else {}
        image_id = _image_id(fields.get("image_name"))
        url, sentences = fields.get("url"), fields.get("sentences")
        if image_id is None or not isinstance(url, str) or not isinstance(sentences, list):
            yield LeftOut(where, "malformed entry", "no image_name, url or sentences")
            continue
        good = []
        for place, sentence in enumerate(sentences):
            if isinstance(sentence, str) and sentence.strip() and _is_text(sentence):
                good.append((sentence_id + place, sentence))
            else:
                reason = "empty caption or no text"
                yield LeftOut(f"{where} sentence {place}", reason, is_record=False)
        # Ids count all sentences, so that they do not depend on which of them are valid.
        sentence_id += len(sentences)
        if good:
            yield LinkedRow(where, image_id, url, good, fields["image_name"])
        else:
            yield LeftOut(where, "no caption")


def read_objects(path: pathlib.Path) -> list[Any]:
    """Reads an .npy file of Python objects that NumPy pickled under Python 2, without running code.

    Args:
      path: the file.

    Returns:
      The objects. Strings of Python 2 that are not UTF-8 have lone surrogates.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is truncated or not such an array.
    """
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            objects = list(load(file, encoding="utf-8", errors="surrogateescape"))
    except DAMAGE as error:
        raise UnexpectedFilesError(
            f"{path} is truncated, or not the array of objects that was published: {error}"
        ) from error
    return objects


class Pins(LinkList):
    """Pins of several files, in a temporary file, since five million take gigabytes of memory.

    The file is in the folder for temporary files (TMPDIR) and is deleted with this object.

    Args:
      paths: number of a published file -> its path.
      expected: name of a file -> its number of pins, if known.
    """

    NAMED_BY_ROW = False
    NAMED_BY_FILE = True

    def __init__(self, paths: Mapping[int, pathlib.Path], expected: Mapping[str, int]) -> None:
        self._paths, self._expected = paths, expected
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._starts = array.array("q")

    def load(self) -> Iterator[LeftOut]:
        """Reads all files.

        Raises:
          UnexpectedFilesError: a file is damaged, or does not have the expected number of pins.
        """
        for file_number, path in self._paths.items():
            count = 0
            for entry in read_pins(path, file_number):
                count += not isinstance(entry, LeftOut) or entry.is_record
                if isinstance(entry, LeftOut):
                    yield entry
                else:
                    self._starts.append(self._file.seek(0, 2))
                    self._file.write(json.dumps(dataclasses.astuple(entry)).encode() + b"\n")
            if path.name in self._expected:
                expected = {path.name: self._expected[path.name]}
                schema.check_counts({path.name: count}, expected, str(path))

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> LinkedRow:
        self._file.seek(self._starts[number])
        row = LinkedRow(*json.loads(self._file.readline()))
        return dataclasses.replace(row, captions=[(id_, text) for id_, text in row.captions])


def _image_id(image_name: Any) -> int | None:
    match = _NUMBER.search(image_name) if isinstance(image_name, str) else None
    number = int(match[1]) if match else 2**31
    return number if number < 2**31 else None


def _is_text(sentence: str) -> bool:
    return "\0" not in sentence and not any("\udc80" <= char <= "\udcff" for char in sentence)
