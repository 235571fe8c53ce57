"""Ids that must be unique, stored in little memory."""

from collections.abc import Iterable

from xmodal.core.errors import UnexpectedFilesError

_BITS = 16


class IdSet:
    """The ids of one kind seen so far.

    Numbers take one bit each, in blocks: the ids of millions of images are dense, and a set of
    them would need a hundred bytes each.

    Args:
      name: name of the ids, for the error.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._blocks: dict[int, bytearray] = {}
        self._texts: set[str] = set()

    def add(self, value: int | str, where: str) -> None:
        """Adds an id.

        Raises:
          UnexpectedFilesError: it was added before or is negative; `where` names its record.
        """
        if isinstance(value, str):
            known = value in self._texts
            self._texts.add(value)
        else:
            number = int(value)
            if number < 0:
                raise UnexpectedFilesError(f"{where}: {self._name} {number} is below 0")
            block = self._blocks.setdefault(number >> _BITS, bytearray(2**_BITS // 8))
            place, bit = divmod(number % 2**_BITS, 8)
            known = bool(block[place] >> bit & 1)
            block[place] |= 1 << bit
        if known:
            raise UnexpectedFilesError(f"{where}: {self._name} {value} appears twice")

    def add_all(self, values: int | Iterable[int], where: str) -> None:
        """Adds one id or several; see `add`."""
        for value in [values] if isinstance(values, int) else values:
            self.add(value, where)
