"""Finds the paths that a name in a user's table may stand for."""

import pathlib
from collections.abc import Callable, Collection, Iterable

from xmodal.core.picture_names import composed

_Spelling = Callable[[str], str]


def _in_lower_case(path: str) -> str:
    # Some letters in lower case are composed of other characters.
    return composed(_with_slashes(path).lower())


def _with_slashes(path: str) -> str:
    return composed(path.replace("\\", "/"))


def _without_ending(path: str) -> str:
    return str(pathlib.PurePosixPath(_in_lower_case(path)).with_suffix(""))


# How a path and a name are written for a comparison; the first comparison that fits counts.
_SPELLINGS: tuple[tuple[_Spelling, _Spelling], ...] = (
    (str, str),
    (_with_slashes, _with_slashes),
    (_in_lower_case, _in_lower_case),
    (_without_ending, _in_lower_case),
)


class PathIndex:
    """Paths by their last components.

    A name stands for every path that ends in all of its components. It may be in different case,
    in another of Unicode's normal forms, with backslashes, or without the extension, if no path
    has it as it is written.

    Args:
      paths: relative paths.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = list(paths)
        self._by_name: dict[_Spelling, dict[str, list[str]]] = {}

    def find(self, name: str, places: Collection[str] = ()) -> list[str]:
        """Returns the paths that a name stands for; several if it is ambiguous.

        Args:
          name: the last components of a path, or all.
          places: whole paths that the name stands for if they exist, whatever else ends in it.
        """
        for spell_path, spell in _SPELLINGS:
            wanted = "/" + spell(name).removeprefix("./")
            whole = {spell(place) for place in places}
            same_name = self._named(spell_path).get(wanted.rpartition("/")[2], ())
            at_place = [path for path in same_name if spell_path(path) in whole]
            found = [path for path in same_name if f"/{spell_path(path)}".endswith(wanted)]
            if at_place or found:
                return at_place or found
        return []

    def _named(self, spell: _Spelling) -> dict[str, list[str]]:
        """Paths by their last component in a spelling."""
        if spell not in self._by_name:
            found = self._by_name[spell] = {}
            for path in self._paths:
                found.setdefault(spell(path).rpartition("/")[2], []).append(path)
        return self._by_name[spell]
