"""What MS-COCO captions hold in Karpathy's split, for `data_prep.validate`."""

from data_prep.checks.figures import Figure

_EVALUATION: dict[str, Figure] = {
    "validation/records": 5000,
    "test/records": 5000,
    "validation/captions": 25_000,
    "test/captions": 25_000,
    "validation/captions of an image": "5",
    "test/captions of an image": "5",
}

FIGURES: dict[str, dict[str, Figure]] = {
    "images_without_restval": {"train/records": 82_783, "train/captions": 414_113},
    "images": {"train/records": 113_287, "train/captions": 566_747},
    "captions": {"train/records": 113_287, "train/captions": 566_747},
    "[ic]*": _EVALUATION,
}
