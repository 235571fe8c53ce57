"""Usual names of the columns of images, captions and splits."""

import re
from collections.abc import Sequence

from xmodal.core.picture_names import IMAGE_ENDINGS

# In order of preference if a table has several.
IMAGES = (
    "image", "image_path", "image_file", "image_filename", "image_file_name", "image_name", "img",
    "img_path", "img_file", "img_name", "file_name", "filename", "file_path", "filepath",
    "picture", "photo", "path", "file", *(ending[1:] for ending in IMAGE_ENDINGS), "image_id",
)  # fmt: skip
_CAPTIONS = (
    "caption", "captions", "text", "texts", "sentence", "sentences", "description",
    "descriptions", "alt_text", "alt", "comment", "raw", "title",
)  # fmt: skip
LINKS = ("url", "image_url", "img_url", "picture_url", "photo_url", "link", "image_link")
SPLITS = ("split", "set", "subset", "partition")
# Numbered columns: caption_1, caption2, Caption 3.
_NUMBERED = re.compile(r"(?P<name>.*?)_?(?P<number>\d*)")


def find_usual(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Returns the columns or keys with a known name, in order of preference."""
    usual = {_usual(name): name for name in reversed(names)}
    return [usual[name] for name in known if name in usual]


def caption_groups(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the names of captions, in order of preference; numbered ones are a group."""
    found: dict[str, list[str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(_usual(name))
        if match is not None:
            found.setdefault(match["name"], []).append(name)
    return [tuple(found[name]) for name in _CAPTIONS if name in found]


def _usual(name: str) -> str:
    """A name in lower case, with words joined by underscores."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)  # imagePath
    return re.sub(r"[\W_]+", "_", words).strip("_").lower()
