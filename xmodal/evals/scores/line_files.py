"""Lists of texts, one per line of a file, such as captions, prompts and names of classes."""

import os
from collections.abc import Sequence

from etils import epath

from xmodal.core.errors import UserError

_SUFFIX = ".txt"


def lines_of(path: str | os.PathLike) -> list[str]:
    """Returns the lines of a text file that are not empty, without spaces around them.

    Raises:
      OSError: the file cannot be read.
      UnicodeDecodeError: it is not UTF-8.
    """
    text = epath.Path(path).read_bytes().decode("utf-8-sig")  # Some editors write a mark.
    # Only line feeds end a line: texts may contain the other separators of splitlines().
    return [line for line in map(str.strip, text.split("\n")) if line]


def read_lines(entries: Sequence[str], where: str) -> tuple[str, ...]:
    """Returns texts; of an entry that ends in .txt, the lines of that file that are not empty.

    Raises:
      UserError: a file is missing, or not text.
    """
    texts: list[str] = []
    for entry in entries:
        if not entry.endswith(_SUFFIX):
            texts.append(entry)
            continue
        try:
            texts += lines_of(entry)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{where}: the file {entry!r} cannot be read: {error}.") from error
    return tuple(texts)
