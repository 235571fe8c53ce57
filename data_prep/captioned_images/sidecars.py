"""Text and JSON files beside the images of the same name."""

import collections
import pathlib
from collections.abc import Iterator

from data_prep.captioned_images.column_names import caption_groups
from data_prep.captioned_images.unused_files import is_description
from data_prep.reading.fetched_files import SIDECAR_ENDINGS, read_meta, stem_of, texts_of_images
from xmodal.core.folders import walk
from xmodal.core.picture_names import is_picture


def is_sidecar(name: str) -> bool:
    """Returns whether a file may describe the image of the same name, according to its ending."""
    return name.lower().endswith(SIDECAR_ENDINGS)


def has_caption(path: pathlib.Path) -> bool:
    """Returns whether a file beside an image is a text, or a JSON object with a known caption."""
    return is_caption(path.name, path.read_bytes())


def is_caption(name: str, content: bytes) -> bool:
    """Returns what `has_caption` does, for a file with a name and a content."""
    if not name.lower().endswith(".json"):
        return True
    return bool(caption_groups(list(read_meta(content)[0])))


def captioned_files(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """Yields images in a folder and its subfolders, each with its text or JSON file."""
    for parent, names in walk(folder):
        images = {stem_of(name): name for name in names if is_picture(name)}
        for name in filter(is_sidecar, names):
            image = images.get(stem_of(name))
            if image and not is_description(name):
                yield parent / image, parent / name


def same_stem(folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Returns reason and detail for the images of a folder whose text could be another's.

    Those are several images of the same name with a text, and images with several texts.
    """
    _, names = next(walk(folder))
    images: dict[str, list[str]] = collections.defaultdict(list)
    found: dict[str, tuple[str, str]] = {}
    for image, texts in texts_of_images(names).items():
        if not is_picture(image):
            continue
        for ending in SIDECAR_ENDINGS:
            same = [each for each in texts if each.lower().endswith(ending)]
            if len(same) > 1:
                found[image] = ("several texts of an image", f"{same[0]} and {same[1]}")
        for text in texts:
            images[text].append(image)
    for text, own in images.items():
        if len(own) > 1:
            detail = f"{own[0]} and {own[1]} share {text}"
            found |= dict.fromkeys(own, ("several images of the same name", detail))
    return found
