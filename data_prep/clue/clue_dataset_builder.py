"""Clue: web images and captions, labeled with the coherence relations between the two."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import coherence_pairs
from data_prep.building.random_access import configs
from data_prep.coherence_pairs import CoherencePairsBuilder, Pair
from data_prep.reading.csv_files import read_csv
from xmodal.core.errors import UnexpectedFilesError

# CMCM is trained on the first six.
_RELATIONS = (
    *("Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant"),
    *("Other", "When", "Where", "How"),
)
# The released split swaps the headers of these two: joined by `index`, its `How` is the `Where` of
# the annotations (data-both-04-08-cleaned.tsv) in all 7,559 rows, and the captions of one name
# places, those of the other views ("close up of").
_SWAPPED = {"Where": "How", "How": "Where"}
_COLUMNS = tuple(_SWAPPED.get(name, name) for name in _RELATIONS)
_FILES = {"train": "conceptual_train_dis.csv", "test": "conceptual_test_dis.csv"}
# Number of pairs for each relation. A release with other headers would not match these.
_TOTALS = {
    "train": (4073, 400, 948, 1467, 2364, 525, 524, 585, 1586, 808),
    "test": (1003, 94, 236, 374, 582, 144, 131, 136, 376, 222),
}
_VALUES = {"0": 0, "1": 1}


class Builder(CoherencePairsBuilder):
    """TFDS builder of the split that CMCM was trained on, and of its test pairs without leaks.

    Image and caption ids are the row numbers of the annotations; `picture_id` is the number of the
    url as in the released img2idxmap.json, which numbers urls by their first appearance.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(
        labels="Captions, urls and relations.",
        images="The same, with the images.",
    )
    RELATIONS = _RELATIONS
    HOMEPAGE = "https://github.com/malihealikhani/Cross-modal_Coherence_Modeling"
    EXPECTED: ClassVar[dict[str, int]] = {"train": 6047, "test": 1512} | {
        f"{split}/{name}": total
        for split, totals in _TOTALS.items()
        for name, total in zip(_RELATIONS, totals, strict=True)
    }

    def __init__(self, *, min_kept: float | None = None, **kwargs: Any) -> None:
        super().__init__(min_kept=min_kept, **kwargs)
        # Many of the urls are dead by now.
        if min_kept is None and self.builder_config.name == "images":
            self.min_kept = 0.5

    def _read_pairs(self, folder: pathlib.Path) -> dict[str, list[Pair]]:
        return {split: list(_read_file(folder / name)) for split, name in _FILES.items()}

    def _expected(self) -> Mapping[str, int]:
        return self.EXPECTED

    def _image_name(self, pair: Pair) -> str:
        return str(pair.picture_id)


def _read_file(path: pathlib.Path) -> Iterator[Pair]:
    """Yields the pairs of a file, without the numbers of their pictures."""
    for row in read_csv(path, columns=("index", "caption", "url", *_COLUMNS)):
        where, fields = row
        relations = coherence_pairs.flags(path, row, _COLUMNS, _VALUES)
        if not fields["index"].isdecimal():
            raise UnexpectedFilesError(f"{path.parent / where}: index is {fields['index']!r}")
        yield Pair(where, int(fields["index"]), -1, fields["url"], fields["caption"], relations)
