"""CITE and CITE++: recipe steps and their pictures, with discourse relations between the two."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import coherence_pairs
from data_prep.building.random_access import configs
from data_prep.coherence_pairs import CoherencePairsBuilder, Pair
from data_prep.reading.csv_files import read_csv

# Relation -> the annotators' question about it; names as in CMCM's tables.
_QUESTIONS = {
    "Expansion": "q2_resp",
    "ImageNeeded": "q3_resp",
    "Elaboration_t": "q4_resp",
    "Elaboration_i-tool": "q5_resp",
    "Temporal_i<t": "q6_resp",
    "Temporal_i>t": "q7_resp",
    "Temporal_i=t": "q8_resp",
}
_RELATIONS, _COLUMNS = tuple(_QUESTIONS), tuple(_QUESTIONS.values())
_VALUES = {"True": 1, "False": 0}
# Split -> file and id of its first pair: ids of two splits never collide.
_PLUS_FILES = {
    "train": ("q2-8_train_dis_11-08.csv", 0),
    "test": ("q2-8_test_dis_11-08.csv", 100_000),
}


class Builder(CoherencePairsBuilder):
    """TFDS builder of CITE, which has no published split, and of CITE++, which has one.

    All of CITE is `train`. Image and caption ids are row numbers from 0; those of CITE++'s test
    split start at 100,000. `picture_id` numbers the picture files in the order of the rows.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(
        labels="CITE: texts, file names, relations.",
        images="The same, with the images.",
        plus_labels="Like `labels`, for CITE++.",
        plus_images="Like `images`, for CITE++.",
    )
    RELATIONS = _RELATIONS
    HOMEPAGE = "https://github.com/malihealikhani/CITE"
    EXPECTED: ClassVar[dict[str, int]] = {"train": 2047} | {
        f"train/{name}": total
        for name, total in zip(_RELATIONS, (1699, 119, 432, 269, 115, 1007, 411), strict=True)
    }
    EXPECTED_PLUS: ClassVar[dict[str, int]] = {"train": 3439, "test": 860} | {
        f"train/{name}": total
        for name, total in zip(_RELATIONS, (2824, 396, 1130, 665, 543, 2021, 1076), strict=True)
    }

    def _expected(self) -> Mapping[str, int]:
        return self.EXPECTED_PLUS if self._is_plus else self.EXPECTED

    @property
    def _is_plus(self) -> bool:
        return self.builder_config.name.startswith("plus")

    def _read_pairs(self, folder: pathlib.Path) -> dict[str, list[Pair]]:
        if self._is_plus:
            return {
                split: list(_read_file(folder / name, ",", first_id))
                for split, (name, first_id) in _PLUS_FILES.items()
            }
        # The name in the repository, and a more descriptive one.
        paths = [folder / name for name in ("data.csv", "cite_data.csv")]
        path = next((path for path in paths if path.exists()), paths[0])
        return {"train": list(_read_file(path, "|", 0))}

    def _image_name(self, pair: Pair) -> str:
        return pair.picture


def _read_file(path: pathlib.Path, delimiter: str, first_id: int) -> Iterator[Pair]:
    """Yields the pairs of a file, without the numbers of their pictures."""
    columns = ("qimg", "stim_txt", *_COLUMNS)
    for number, row in enumerate(read_csv(path, columns=columns, delimiter=delimiter), first_id):
        where, fields = row
        relations = coherence_pairs.flags(path, row, _COLUMNS, _VALUES)
        yield Pair(where, number, -1, fields["qimg"], fields["stim_txt"], relations)
