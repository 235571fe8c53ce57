"""What CITE and CITE++ are known to hold, for `data_prep.validate`."""

from collections.abc import Mapping

from data_prep.checks.figures import Figure, Unknown
from data_prep.cite.cite_dataset_builder import Builder


def _counts(expected: Mapping[str, int]) -> dict[str, Figure]:
    return {
        name.replace("/", "/relation ") if "/" in name else f"{name}/records": count
        for name, count in expected.items()
    } | {"*/captions of an image": "1"}


_SPLIT: dict[str, Figure] = {
    "test/picture *also in train": Unknown("steps of one recipe may share a picture"),
    "test/image *also in train": Unknown("likewise"),
    "test_deduplicated/* also in test": Unknown("it is a part of test"),
}

FIGURES: dict[str, dict[str, Figure]] = {
    "plus_*": _counts(Builder.EXPECTED_PLUS) | _SPLIT,
    "[li]*": _counts(Builder.EXPECTED),
}
