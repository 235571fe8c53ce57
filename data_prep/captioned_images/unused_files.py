"""Lists the files of a user's folder that nothing is read from."""

import pathlib
from collections.abc import Container, Iterator

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.options import FILE
from data_prep.captioned_images.picture_files import PictureFiles
from data_prep.captioned_images.tables import TABLE_ENDINGS, ending
from xmodal.core.folders import walk
from xmodal.core.picture_names import fault_of_file, is_picture, is_unread_picture

RATINGS = "ratings"
# What tools write beside data: Hugging Face's and img2dataset's descriptions, ours.
_DESCRIPTIONS = (FILE, "dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json")
_NOTES = ("readme", "license", "licence", "copying", "notice", "citation", "changelog", "authors")


def is_description(name: str) -> bool:
    """Returns whether a file is known to hold neither pictures nor captions, by its name."""
    stem = name.partition(".")[0].lower()
    return (
        name.startswith(".")
        or stem in (RATINGS, *_NOTES)
        or name in _DESCRIPTIONS
        or name.endswith("_stats.json")
    )


def unused_files(folder: pathlib.Path, used: Container[str]) -> Iterator[LeftOut]:
    """Yields an entry for every file that is not used, except descriptions of the data.

    Args:
      folder: folder of the user.
      used: paths of files, relative to the folder.
    """
    for parent, names in walk(folder):
        for name in names:
            place = (parent / name).relative_to(folder).as_posix()
            reason, _, detail = fault_of_file(parent / name).partition(": ")
            is_known = is_description(name) and reason != "skipped folder"
            if place in used or (is_known and not _is_deep_rating(place)):
                continue
            if is_picture(name) and not reason:
                reason, detail = "no caption", "no caption is given for it"
            elif ending(parent / name) in TABLE_ENDINGS and reason != "broken link":
                reason, detail = "unread file", "no table of images and captions"
            is_lost = is_unread_picture(name) or (is_picture(name) and reason == "broken link")
            yield LeftOut(place, reason, detail, is_record=is_lost)


def _is_deep_rating(place: str) -> bool:
    """Whether a file is called like a table of ratings, which is read only in the folder itself."""
    path = pathlib.PurePosixPath(place)
    return len(path.parts) > 1 and path.name.partition(".")[0].lower() == RATINGS


def without_row(files: PictureFiles, used: set[str]) -> Iterator[LeftOut]:
    """Yields an entry for every picture without a row in a table, and every other unused file.

    Args:
      files: the pictures of the folder.
      used: paths of pictures with a row, and of other files.
    """
    for link, first in files.links.items():
        yield LeftOut(link, "link", f"another path of {first}", is_record=False)
    for place in sorted(set(files.places) - used):
        path = files.folder / place
        is_broken = path.is_symlink() and not path.exists()
        reason = "broken link" if is_broken else "in no row of a table"
        yield LeftOut(place, reason, is_record=False)
    yield from unused_files(files.folder, used.union(files.places, files.links))
