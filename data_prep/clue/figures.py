"""What Clue is known to hold, and how its released split leaks, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Known, Unknown
from data_prep.clue.clue_dataset_builder import Builder

_COUNTS: dict[str, Figure] = {
    name.replace("/", "/relation ") if "/" in name else f"{name}/records": count
    for name, count in Builder.EXPECTED.items()
}

FIGURES: dict[str, dict[str, Figure]] = {
    "*": _COUNTS
    | {
        "test/picture also in train": Known(610, "test rows whose picture was trained on"),
        "test/picture and caption also in train": Known(38, "test rows that were trained on"),
        "test/captions also in train": Known(202, "test rows whose caption was trained on"),
        "test/picture repeated": Known(137, "copies of the right picture count as wrong"),
        # As many as their urls, unless two urls led to one file or some were not fetched.
        "test/image also in train": Unknown("the same leak, by the bytes of the images"),
        "test/image and caption also in train": Unknown("likewise"),
        "test_deduplicated/* also in test": Unknown("it is a part of test"),
        "*/captions of an image": "1",
        "test_deduplicated/captions repeated": 0,
        "test_deduplicated/captions also in train": 0,
        "test_deduplicated/picture repeated": 0,
    }
}
