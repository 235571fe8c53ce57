"""`captioned_images.json` in a folder: which table and which columns to read."""

import dataclasses
import pathlib
from typing import Self

from data_prep.reading.text_files import read_json
from xmodal.core.errors import UnexpectedFilesError

FILE = "captioned_images.json"
NO_TABLE = "none"
"""Value of `table` for a folder whose tables are not read."""
BY_CONTENT = f', or split by content with {{"split": "none"}} in {FILE}'
"""End of errors about splits."""


@dataclasses.dataclass(frozen=True)
class ReadingOptions:
    """Names given by the user; the documented names are read in place of empty ones.

    Attributes:
      table: path of the table, relative to the folder; "none" for shards and files beside images.
      image: the column of image file names or images.
      captions: the columns of captions, or the keys of JSON files.
      split: the column or key of splits; "none" to split by content even if there is one.
    """

    table: str = ""
    image: str = ""
    captions: tuple[str, ...] = ()
    split: str = ""

    @classmethod
    def read(cls, folder: pathlib.Path) -> Self:
        """Reads the options of a folder, or returns the defaults if it has none."""
        path = folder / FILE
        if not path.is_file():
            return cls()
        content = read_json(path)
        known = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(content, dict) or not content.keys() <= set(known):
            shown = ", ".join(content) if isinstance(content, dict) else f"{content!r:.60}"
            raise UnexpectedFilesError(
                f"{path} has {shown}; it must be a JSON object with the keys {', '.join(known)}"
            )
        if isinstance(content.get("captions", []), str):
            content["captions"] = [content["captions"]]
        captions = content.pop("captions", [])
        for value in (*content.values(), *captions):
            if not isinstance(value, str):
                raise UnexpectedFilesError(
                    f"{path} has {value!r:.60}; values are strings, and `captions` may be a list "
                    "of strings"
                )
        return cls(**content, captions=tuple(captions))
