"""What Conceptual Captions is known to hold (Sharma et al. 2018), for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Unknown

_COPIES = Unknown("a server that lost a picture often sends the same other one in its place")

FIGURES: dict[str, dict[str, Figure]] = {
    "images": {
        "train/records with those left out": 3_318_333,
        "validation/records with those left out": 15_840,
        "*/captions of an image": "1",
        "validation/image also in train": _COPIES,
        "validation/image and caption also in train": _COPIES,
    }
}
