"""Chooses the columns of a table by the options, by their usual names, and by their contents."""

import collections
import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import cell_captions, image_name, split_of_value
from data_prep.captioned_images.column_names import (
    IMAGES,
    LINKS,
    SPLITS,
    caption_groups,
    find_usual,
)
from data_prep.captioned_images.numeric_captions import is_number
from data_prep.captioned_images.options import FILE, ReadingOptions
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.tables import Table
from data_prep.same_text import text_key
from xmodal.core.errors import ConflictingColumnsError, UnexpectedFilesError
from xmodal.core.picture_names import is_picture

# A column of bare numbers must name images in this share of the rows.
_LEAST_NAMED = 0.9
_KINDS = {"image": "images", "captions": "captions", "split": "splits"}

Group = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns to read from a table.

    Attributes:
      image: the column of file names or images.
      captions: one or several columns.
      split: the column of splits; None if there is none.
      others: columns that are not read.
    """

    image: str
    captions: tuple[str, ...]
    split: str | None
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"image: {self.image}", f"captions: {', '.join(self.captions)}"]
        parts += [f"split: {self.split}"] if self.split else []
        others = ", ".join(filter(None, self.others))  # Spreadsheets also write unnamed ones.
        parts += [f"not read: {others}"] if others else []
        return "; ".join(parts)


def find_columns(
    table: Table, options: ReadingOptions, pictures: PictureFiles, embedded: str = ""
) -> Columns:
    """Returns the columns of a table: those named in the options, or those with usual names.

    Args:
      table: the table.
      options: names given by the user.
      pictures: images of the folder.
      embedded: the column that holds the images, if they are in the table.

    Raises:
      UnexpectedFilesError: there is no column of images or captions, a named one is missing, two
        that are read have the same name, or several with usual names contradict each other.
    """
    names, where = table.names, table.path
    first = None if names else next(table.rows(), None)
    if isinstance(first, LeftOut):
        raise UnexpectedFilesError(f"{where.parent}: {first.where}: {first.reason}, {first.detail}")
    given = (options.image, *options.captions, options.split if options.split != "none" else "")
    listed = ", ".join(map(repr, names)) or "none"
    for name in filter(None, given):
        if name not in names:
            raise UnexpectedFilesError(
                f"{where} has no column {name!r}, as named in {FILE}; its columns are {listed}"
            )
    given_image = embedded or options.image
    images = [(name,) for name in ([given_image] if given_image else find_usual(names, IMAGES))]
    captions = [options.captions] if options.captions else []
    captions = captions or caption_groups([name for name in names if name != given_image])
    for found, kind, key in ((images, "image", "image"), (captions, "caption", "captions")):
        if found:
            continue
        if kind == "image" and (links := find_usual(names, LINKS)):
            raise UnexpectedFilesError(
                f"{where} has the column {links[0]!r} but none of image files; download the images "
                "first, for example with img2dataset, and pass the folder that it writes"
            )
        raise UnexpectedFilesError(
            f"{where} has no {kind} column with a known name; its columns are "
            f'{listed}: rename one, or add {{"{key}": "COLUMN"}} to {FILE} in the same folder, '
            'or {"names": [...]} if the first line is no header'
        )
    split = options.split
    splits = [(name,) for name in ([split] if split else find_usual(names, SPLITS))]
    named = functools.partial(_images, pictures, table)
    (image,) = _only_reading(table, images, "image", named, least=_LEAST_NAMED)
    texts = _only_reading(table, captions, "captions", _captions)
    (split,) = _only_reading(table, splits, "split", _splits) if splits else ("",)
    read_columns = {image, *texts, split} - {"", "none"}
    if twice := [name for name in names if name in read_columns and names.count(name) > 1]:
        raise UnexpectedFilesError(
            f"{where} has several columns {twice[0]!r}, of which only one can be read; rename them"
        )
    others = tuple(name for name in names if name not in read_columns)
    return Columns(image, texts, split if split in read_columns else None, others)


def _only_reading(
    table: Table,
    groups: Sequence[Group],
    key: str,
    read: Callable[[Any], set[str]],
    least: float = 0.0,
) -> Group:
    """Returns the columns to read among several with usual names: those with the most values.

    Args:
      table: the table.
      groups: the columns to choose from, in order of preference.
      key: the option that names them.
      read: returns the values in a cell: the images that it may name, captions, or a split.
      least: groups with values in a smaller share of the rows in which any group has values are
        not read, unless their cells end like file names of images.

    Raises:
      ConflictingColumnsError: two groups have different values in a row; shows both.
    """
    if len(groups) < 2:
        return groups[0]
    rows, filled, known = 0, collections.Counter[Group](), collections.Counter[Group]()
    # Columns with a cell that ends like the name of an image, and with one that is no number.
    certain, named, conflicts = set[Group](), set[Group](), dict[tuple[Group, Group], str]()
    for where, cells in table.columns(*itertools.chain.from_iterable(groups)):
        found = {group: set().union(*(read(cells.get(name)) for name in group)) for group in groups}
        rows += any(found.values())
        certain |= {group for group in groups if is_picture(str(cells.get(group[0])))}
        for group, values in found.items():
            filled[group] += bool(values)
            named |= {group} if values and not is_number(str(cells.get(group[0]))) else set()
            # A name that several images share does not count.
            known[group] += len(values) if key == "captions" else len(values) == 1
        for pair in itertools.combinations(groups, 2):
            one, other = (found[group] for group in pair)
            if one and other and not (one <= other or other <= one):
                shown = " and ".join(f"{cells.get(group[0])!r:.60}" for group in pair)
                conflicts.setdefault(pair, f"{table.path.parent / where}: {shown}")
    possible = [group for group in groups if group in certain or filled[group] >= least * rows]
    for pair in itertools.combinations(possible or groups, 2):
        if pair in conflicts:
            names = " and ".join(repr(name) for group in pair for name in group)
            remedies = " or ".join(
                json.dumps({key: group[0] if len(group) == 1 else group}) for group in pair
            )
            raise ConflictingColumnsError(
                f"{conflicts[pair]} are in the columns {names}, which both have usual names of "
                f"{_KINDS[key]} but differ; choose with {remedies} in {FILE}"
            )
    if certain:  # Names with an ending come before bare numbers, even if they are not found.
        possible = [group for group in possible if group in certain | named]
    return max(possible or groups, key=known.__getitem__)


def _images(pictures: PictureFiles, table: Table, value: Any) -> set[str]:
    return set(pictures.matches(image_name(value), table.path))


def _captions(value: Any) -> set[str]:
    texts = [text for text in cell_captions([value], "") if isinstance(text, str)]
    return {text_key(text) for text in texts if not is_number(text)} - {""}


def _splits(value: Any) -> set[str]:
    return {split_of_value(value)} - {""}
