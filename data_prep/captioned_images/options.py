"""`captioned_images.json` in a folder: column names and other settings that cannot be inferred."""

import dataclasses
import pathlib
from typing import Any, Self

from data_prep.reading.text_files import read_json
from xmodal.core.errors import UnexpectedFilesError

FILE = "captioned_images.json"
NO_TABLE = "none"
"""Value of `table` for a folder whose tables are not read."""


@dataclasses.dataclass(frozen=True)
class ReadingOptions:
    """Names given by the user; empty ones are inferred.

    Attributes:
      table: path of the table, relative to the folder; "none" for text and JSON files or shards.
      image: the column of image file names or images.
      captions: the columns of captions, or the keys of JSON files; "txt" for text files.
      split: the column of splits; "none" to split by content even if there is one.
      names: the columns of text tables without a header.
    """

    table: str = ""
    image: str = ""
    captions: tuple[str, ...] = ()
    split: str = ""
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: pathlib.Path) -> Self:
        """Reads the options of a folder, or returns the defaults if it has none.

        Raises:
          UnexpectedFilesError: the file is not a JSON object of these keys, or a value is not a
            string.
        """
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
        given = {name: _texts(value) for name, value in content.items()}
        lists = ("captions", "names")
        for name, texts in given.items():
            if texts is None or (name not in lists and len(texts) != 1):
                raise UnexpectedFilesError(
                    f"{path}: {name} is {content[name]!r:.60}; it must be a string"
                    + (" or a list of strings" if name in lists else "")
                )
        values = {name: texts for name, texts in given.items() if texts}
        single = {name: texts[0] for name, texts in values.items() if name not in lists}
        several = {name: texts for name, texts in values.items() if name in lists}
        return cls(**single, **several)  # type: ignore[arg-type]  # types differ by name


def _texts(value: Any) -> tuple[str, ...] | None:
    values = value if isinstance(value, list) else [value]
    return tuple(values) if all(isinstance(each, str) for each in values) else None
