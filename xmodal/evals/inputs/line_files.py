"""Lists of texts in a config, such as prompts, that may be in files."""

from collections.abc import Sequence

from etils import epath

from xmodal.base.config import UserError

_SUFFIX = ".txt"


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
            content = epath.Path(entry).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{where}: the file {entry!r} cannot be read: {error}.") from error
        texts += [line.strip() for line in content.splitlines() if line.strip()]
    return tuple(texts)
