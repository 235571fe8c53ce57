"""What SBU Captioned Photos hold, and how many of them VETE held out, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Unknown

_COPIES = Unknown("people upload a picture more than once, and Flickr sends one for all it lost")

FIGURES: dict[str, dict[str, Figure]] = {
    "images": {
        "train/records with those left out": 900_000,
        "validation/records with those left out": 50_000,
        "test/records with those left out": 50_000,
        "*/captions of an image": "1",
        "*/image also in *": _COPIES,
        "*/image and caption also in *": _COPIES,
    }
}
