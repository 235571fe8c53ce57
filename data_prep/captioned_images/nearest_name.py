"""Explains to a user why no picture has the name that a table gives."""

import bisect
import difflib
import pathlib
import re
from collections.abc import Iterable

from data_prep.captioned_images.options import FILE

_COMPARED = 10_000
_DECIMAL = re.compile(r"\d+\.0+")


def explain(name: str, where: str, places: Iterable[str]) -> str:
    """Returns a sentence with the name, the nearest one that exists, and a remedy.

    Args:
      name: name without a picture.
      where: its place in the files, with the column.
      places: paths of all pictures.
    """
    near = nearest(name, places)
    if not near:
        return f"{where}: there is no picture {name!r:.100}, nor any other; copy the pictures there"
    if _DECIMAL.fullmatch(name):
        remedy = "the numbers were written as decimals: write them as integers or as text"
    else:
        remedy = f'correct the names, or name another column with {{"image": "COLUMN"}} in {FILE}'
    return f"{where}: there is no picture {name!r:.100}; the nearest name is {near!r}; {remedy}"


def nearest(name: str, places: Iterable[str]) -> str:
    """Returns the path whose last component is most like that of a name; "" if there is none."""
    paths = {pathlib.PurePosixPath(place).name: place for place in places}
    wanted = re.split(r"[/\\]", name)[-1]
    names = sorted(paths)
    # A comparison takes some microseconds.
    place = bisect.bisect(names, wanted)
    close = names[max(place - _COMPARED // 2, 0) : place + _COMPARED // 2]
    found = difflib.get_close_matches(wanted, close, n=1, cutoff=0.0)
    return paths[found[0]] if found else ""
