"""The pins of Pinterest40M: an image with the sentences of several people, one JSON line each."""

import array
import dataclasses
import json
import pathlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from data_prep.building.records import LeftOut
from data_prep.pinterest.object_arrays import read_objects

_NUMBER = re.compile(r"(\d+)\.\w+$", re.ASCII)
# Ids of captions: the number of the file, then the place of the sentence in its file.
_SENTENCE_BITS = 24


@dataclasses.dataclass(frozen=True)
class Pin:
    """One image of the list.

    Attributes:
      where: what reports call it.
      image_id: the number in the published name of the image.
      image_name: that name, `pin_image_001004887.jpg`.
      url: where the image was.
      sentences: caption id and text.
    """

    where: str
    image_id: int
    image_name: str
    url: str
    sentences: list[tuple[int, str]]


def read_pins(path: pathlib.Path, file_number: int) -> Iterator[Pin | LeftOut]:
    """Reads one of the published files.

    Args:
      path: `pin_2016_v1_0000.npy` or another.
      file_number: the number in that name.

    Yields:
      The pins with their good sentences; entries that are no pins, sentences that are no text.

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
        # Ids count all sentences, so that they do not depend on which of them are good.
        sentence_id += len(sentences)
        if good:
            yield Pin(where, image_id, fields["image_name"], url, good)
        else:
            yield LeftOut(where, "no caption")


class PinSpool(Sequence[Pin]):
    """Pins in a temporary file, by number: five million of them would take gigabytes of memory.

    The file lies in the folder for temporary files (TMPDIR) and vanishes with this object.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._starts = array.array("q")

    def add(self, pin: Pin) -> None:
        """Appends a pin."""
        self._starts.append(self._file.seek(0, 2))
        self._file.write(json.dumps(dataclasses.astuple(pin)).encode() + b"\n")

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Pin:
        self._file.seek(self._starts[number])
        *fields, sentences = json.loads(self._file.readline())
        return Pin(*fields, [(id_, text) for id_, text in sentences])


def _image_id(image_name: Any) -> int | None:
    match = _NUMBER.search(image_name) if isinstance(image_name, str) else None
    number = int(match[1]) if match else 2**31
    return number if number < 2**31 else None


def _fields(entry: Any) -> dict[Any, Any]:
    """An entry with names that are texts; those of Python 2 are bytes."""
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
