"""What Flickr8k is known to hold (Hodosh, Young and Hockenmaier 2013), for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Within

_SPLITS: dict[str, Figure] = {
    "train/records": 6000,
    "validation/records": 1000,
    "test/records": 1000,
    "train/captions": 30_000,
    "validation/captions": 5000,
    "test/captions": 5000,
    "*/captions of an image": "5",
}

FIGURES: dict[str, dict[str, Figure]] = {
    "ratings": {
        "test/rows with task=expert, method=expert": 5664,
        # As published, and what is left of a copy with damaged lines that is handed around.
        "test/rows with task=crowd, method=crowd": Within(47_288, 47_830),
        "* score with task=expert, method=expert": Within(1, 4),
        "* score with task=crowd, method=crowd": Within(0, 1),
    },
    "images": _SPLITS,
    "features": _SPLITS,
}

JOINS = {"ratings": ("flickr8k/features", "flickr8k/images")}
