"""CITE and CITE++: steps of recipes and their pictures, with the discourse relations of the two."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.records import LeftOut, Record
from data_prep.published import Figure, Unknown, count_figures
from data_prep.reading import coherence_pairs
from data_prep.reading.coherence_pairs import Pair
from data_prep.reading.text_files import scan_csv

# Relation -> the question of the annotators that stands for it; names as in CMCM's tables.
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
_PLUS_FILES = {"train": "q2-8_train_dis_11-08.csv", "test": "q2-8_test_dis_11-08.csv"}
# Ids of test pairs start here, so that they differ from those of training.
_TEST_OFFSET = 100_000


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of CITE, which has no published split, and of CITE++, which has one.

    All of CITE is `train`. Image and caption ids are row numbers from 0; those of CITE++'s test
    split start at 100,000. `picture_id` numbers the picture files in the order of the rows.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="labels", description="CITE: texts, file names, relations."),
        tfds.core.BuilderConfig(name="images", description="The same, with the images."),
        tfds.core.BuilderConfig(name="plus_labels", description="As `labels`, of CITE++."),
        tfds.core.BuilderConfig(name="plus_images", description="As `images`, of CITE++."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder
      - data.csv from https://github.com/malihealikhani/CITE (cite_data.csv is read, too)
      - for the configs plus_*: q2-8_train_dis_11-08.csv and q2-8_test_dis_11-08.csv, to which
        https://github.com/klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval links as CITE++
      - for images and plus_images: images/ with the training images of RecipeQA
        (https://hucvl.github.io/recipeqa), in folders below it or not.
    """
    EXPECTED: ClassVar[dict[str, int]] = {"train": 2047} | {
        f"train/{name}": total
        for name, total in zip(_RELATIONS, (1699, 119, 432, 269, 115, 1007, 411), strict=True)
    }
    EXPECTED_PLUS: ClassVar[dict[str, int]] = {"train": 3439, "test": 860} | {
        f"train/{name}": total
        for name, total in zip(_RELATIONS, (2824, 396, 1130, 665, 543, 2021, 1076), strict=True)
    }

    def _info(self) -> tfds.core.DatasetInfo:
        pixels = tfds.features.Image(shape=(None, None, 3))
        image = pixels if self.builder_config.name.endswith("images") else None
        return self.dataset_info_from_configs(
            features=coherence_pairs.pair_features(image, len(_RELATIONS)),
            homepage="https://github.com/malihealikhani/CITE",
            metadata=tfds.core.MetadataDict(relations=list(_RELATIONS)),
        )

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`."""
        figures = {"*/captions of an image": "1"}
        if not config.startswith("plus"):
            return figures | count_figures(cls.EXPECTED)
        return (
            figures
            | count_figures(cls.EXPECTED_PLUS)
            | {
                "test/picture *also in train": Unknown("steps of one recipe may share a picture"),
                "test/image *also in train": Unknown("likewise"),
                "test_deduplicated/* also in test": Unknown("it is a part of test"),
            }
        )

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        config = self.builder_config.name
        if config.startswith("plus"):
            pairs = {
                "train": list(_read_pairs(folder / _PLUS_FILES["train"], ",", 0)),
                "test": list(_read_pairs(folder / _PLUS_FILES["test"], ",", _TEST_OFFSET)),
            }
            expected = self.EXPECTED_PLUS
        else:
            # The name that it has in its repository, and one that tells what it is.
            paths = [folder / name for name in ("data.csv", "cite_data.csv")]
            path = next((path for path in paths if path.exists()), paths[0])
            pairs = {"train": list(_read_pairs(path, "|", 0))}
            expected = self.EXPECTED
        coherence_pairs.check_counts(pairs, _RELATIONS, expected, str(folder))
        pairs = coherence_pairs.with_numbers(pairs)
        if "test" in pairs:
            pairs["test_deduplicated"], dropped = coherence_pairs.deduplicated(
                pairs["test"], pairs["train"]
            )
            self.info.metadata["deduplicated"] = dict(dropped)
        if config.endswith("labels"):
            return {split: coherence_pairs.records(group) for split, group in pairs.items()}
        return {
            split: coherence_pairs.records_with_images(
                group, folder / "images", name=lambda pair: pair.picture
            )
            for split, group in pairs.items()
        }


def _read_pairs(path: pathlib.Path, delimiter: str, first_id: int) -> Iterator[Pair | LeftOut]:
    """The pairs of a file, without the numbers of their pictures."""
    columns = ("qimg", "stim_txt", *_COLUMNS)
    for number, row in enumerate(scan_csv(path, columns=columns, delimiter=delimiter), first_id):
        if isinstance(row, LeftOut):
            yield row
            continue
        where, fields = row
        try:
            relations = coherence_pairs.flags(fields, _COLUMNS, _VALUES)
        except ValueError as error:
            yield LeftOut(where, "no label", str(error))
            continue
        yield Pair(where, number, -1, fields["qimg"], fields["stim_txt"], relations)
