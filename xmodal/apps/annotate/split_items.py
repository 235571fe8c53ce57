"""Captions and pictures of a prepared dataset, as a study stores them."""

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb

if TYPE_CHECKING:
    from xmodal.data import EvalSplit

# Formats that every browser shows; other pictures are stored as PNG.
_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp"}
_AT_A_TIME = 64
_PLACE = ("dataset", "config", "data_dir", "manual_dir")


def open_items(options: Mapping[str, Any]) -> "EvalSplit":
    """Opens the split named by `dataset`, `config`, `data_dir`, `manual_dir` and `split`."""
    from xmodal import data

    # Pictures are shown as they are stored.
    section = {name: options[name] for name in _PLACE} | {"image": {"size": 1}, "text": {}}
    data.prepare(section, splits=[options["split"]])
    split = data.eval_split(section, split=options["split"])
    if set(split.modalities) != {"image", "text"} or not len(split.caption_ids):
        raise UserError(
            f"{split.name}/{options['config']} has no captioned pictures to show: name another "
            "--config."
        )
    return split


def pictures_of(split: "EvalSplit", image_ids: Iterable[int]) -> Iterator[tuple[int, str, bytes]]:
    """Returns id, media type and file content of the pictures of some images."""
    rows = np.flatnonzero(np.isin(split.image_ids, list(image_ids)))
    for start in range(0, len(rows), _AT_A_TIME):
        at = rows[start : start + _AT_A_TIME]
        for image, data in zip(split.image_ids[at].tolist(), split.pictures(at), strict=True):
            yield _as_picture(image, data)


def _as_picture(image: int, data: bytes) -> tuple[int, str, bytes]:
    with open_picture(data) as opened:
        if opened.format in _TYPES:
            return image, _TYPES[opened.format], data
        file = io.BytesIO()
        to_rgb(opened).save(file, "PNG")
        return image, _TYPES["PNG"], file.getvalue()
