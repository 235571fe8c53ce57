"""Names of the objects that a detector found, in VinVL's files `predictions.tsv`."""

import pathlib

from data_prep.reading.text_lines import TextLines
from data_prep.region_features.feature_stores import TAGS, number_of_name
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import files_below
from xmodal.core.untrusted.json_text import parse_json_text


def read_tags(folder: pathlib.Path) -> dict[int, str]:
    """Reads the objects of all images in a folder and its subfolders.

    A line has the name of an image and a JSON list of objects with their `class`, or `objects` with
    such a list; the order is kept, as in microsoft/Oscar (oscar/run_retrieval.py).

    Returns:
      Number of an image -> names of its objects, joined by spaces.

    Raises:
      FileNotFoundError: there is no file.
      UnexpectedFilesError: a line has another form, or an image has two.
    """
    tags: dict[int, str] = {}
    paths = files_below(folder, TAGS)
    if not paths:
        raise FileNotFoundError(f"{folder} has no {TAGS}")
    for path in paths:
        for place, line in enumerate(TextLines(path), start=1):
            name, _, content = line.partition(b"\t")
            try:
                number = number_of_name(name.decode())
                if number is None or number in tags:
                    raise ValueError("it names no image, or one that was named before")
                found = parse_json_text(content)
                objects = found["objects"] if isinstance(found, dict) else found
                tags[number] = " ".join(each["class"] for each in objects)
            except (ValueError, KeyError, TypeError) as error:
                raise UnexpectedFilesError(
                    f"{path} line {place} is not an image with its objects: {error!r}"
                ) from error
    return tags
