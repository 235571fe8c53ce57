"""What is known of the released part of Pinterest40M, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Unknown

_COPIES: dict[str, Figure] = {
    "*/image also in *": Unknown("a picture may be pinned from several pages"),
    "*/image and caption also in *": Unknown("a picture may be pinned from several pages"),
}

FIGURES: dict[str, dict[str, Figure]] = {
    "images": _COPIES,
    "one_caption": _COPIES | {"*/captions of an image": "1"},
}
