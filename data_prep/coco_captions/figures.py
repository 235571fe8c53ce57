"""What MS-COCO captions hold in Karpathy's and in im2txt's split, for `data_prep.validate`."""

from data_prep.checks.figures import Figure

_EVALUATION: dict[str, Figure] = {
    "validation/records": 5000,
    "test/records": 5000,
    "validation/captions": 25_000,
    "test/captions": 25_000,
    "validation/captions of an image": "5",
    "test/captions of an image": "5",
}

# Images only: how many captions each part has is not in the papers.
_IM2TXT: dict[str, Figure] = {
    "train/records": 117_211,
    "validation/records": 2_025,
    "test/records": 4_051,
}

FIGURES: dict[str, dict[str, Figure]] = {
    "images_without_restval": {"train/records": 82_783, "train/captions": 414_113} | _EVALUATION,
    "images": {"train/records": 113_287, "train/captions": 566_747} | _EVALUATION,
    "captions": {"train/records": 113_287, "train/captions": 566_747} | _EVALUATION,
    "im2txt": _IM2TXT,
    "im2txt_one_caption": _IM2TXT
    | {
        "train/captions": 117_211,
        "validation/captions": 2_025,
        "test/captions": 4_051,
        "*/captions of an image": "1",
    },
}
