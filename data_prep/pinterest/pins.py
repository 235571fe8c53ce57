"""The pins of Pinterest40M: an image with the sentences of several people, one JSON line each."""

import array
import dataclasses
import json
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from data_prep import schema
from data_prep.building.record_counts import LeftOut
from data_prep.linked_captions import LinkedRow, LinkList
from data_prep.pinterest.object_arrays import read_objects

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
        fields = _fields(entry)
        image_id = _image_id(fields.get("image_name"))
        url, sentences = fields.get("url"), fields.get("sentences")
        if image_id is None or not isinstance(url, str) or not isinstance(sentences, list):
            yield LeftOut(where, "malformed entry", "no image_name, url or sentences")
            continue
        good = []
        for place, sentence in enumerate(map(_as_text, sentences)):
            if isinstance(sentence, str) and sentence.strip() and "\0" not in sentence:
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


def _fields(entry: Any) -> dict[Any, Any]:
    """An entry with its keys as text; under Python 2, they were bytes."""
    if not isinstance(entry, dict):
        return {}
    return {
        _as_text(key): value if isinstance(value, list) else _as_text(value)
        for key, value in entry.items()
    }


def _as_text(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None
