"""Tables of parts that a config names."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xmodal.base.config import read_named


class Row(NamedTuple):
    """One kind of part: the dataclass of its section, and the function that makes it."""

    config: type
    make: Callable[..., Any]


def make_part(
    where: str, section: Mapping[str, Any], table: Mapping[str, Row], *arguments: Any
) -> Any:
    """Returns the part that a section describes.

    Args:
      where: the section as a user writes it: `config.model.image.encoder`.
      section: `name`, a key of the table, and the keywords of that row.
      table: the kinds of parts.
      *arguments: passed to the row's function after the section.

    Raises:
      UserError: the name or a keyword is missing or unknown, or a value is out of range.
    """
    row, config = read_named(where, section, table, lambda row: row.config)
    return row.make(config, *arguments)
