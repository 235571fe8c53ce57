"""What crisscrossed_shapes is drawn to hold, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Within

FIGURES: dict[str, dict[str, Figure]] = {
    "images": {
        "train/records": 6000,
        "validation/records": 1000,
        "test/records": 1000,
        "*/captions of an image": "5",
    },
    "ratings": {"* score with *": Within(0, 5)},
}

JOINS = {"ratings": ("crisscrossed_shapes/images",)}
