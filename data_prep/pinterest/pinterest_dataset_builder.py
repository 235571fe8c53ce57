"""The released part of Pinterest40M: five million images with the sentences of several people."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.caption_pairs import caption_pairs
from data_prep.linked_captions import LinkedCaptionsBuilder, LinkedRecords, linked_records
from data_prep.pinterest.pins import Pins, read_pins

_LISTS = "pinterest_multimodal_2016_v1"


class Builder(LinkedCaptionsBuilder):
    """TFDS builder of the released part of Pinterest40M ("Pinterest5M").

    The id of an image is the number in its published name. The id of a caption is 2^24 times the
    number of its file plus the position of the sentence in the file, so that it depends only on
    that file. The splits, by file, are those recommended by the authors.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(
        images="Pins with all their sentences.",
        one_caption="The first sentence of every pin, as in VETE.",
        test_pairs="Sentence pairs from the same and from different test pins, no images.",
    )
    UNIQUE_IDS: ClassVar[tuple[str, ...]] = ("image_id", "caption_ids", "pair_id")
    HOMEPAGE = "https://github.com/mjhucla/P-Multimodal-Dataset-Toolbox"
    # Split -> numbers of the published files.
    FILES: ClassVar[dict[str, range]] = {
        "train": range(98),
        "validation": range(98, 99),
        "test": range(99, 100),
    }
    # The only published size: the toolbox prints the number of pins in the first file.
    EXPECTED: ClassVar[dict[str, int]] = {"pin_2016_v1_0000.npy": 49_786}

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name == "test_pairs":
            return schema.sentence_pair_features()
        return super()._features()

    def _splits(self, folder: pathlib.Path) -> Mapping[str, LinkedRecords]:
        lists = folder / _LISTS
        paths = {
            split: {number: lists / f"pin_2016_v1_{number:04d}.npy" for number in numbers}
            for split, numbers in self.FILES.items()
        }
        if missing := [p for own in paths.values() for p in own.values() if not p.exists()]:
            raise FileNotFoundError(f"{missing[0]} does not exist ({len(missing)} missing)")
        if self.builder_config.name == "test_pairs":
            return {"test": _test_pairs(paths["test"])}
        most = 1 if self.builder_config.name == "one_caption" else None
        return {
            split: linked_records(
                Pins(files, self.EXPECTED),
                folder / "images",
                most_captions=most,
                in_parts=self.in_parts,
            )
            for split, files in paths.items()
        }


def _test_pairs(paths: Mapping[int, pathlib.Path]) -> Iterator[Record | LeftOut]:
    """Yields the pairs, and the entries that are not pins."""
    images: dict[int, list[str]] = {}
    for number, path in paths.items():
        for entry in read_pins(path, number):
            if isinstance(entry, LeftOut):
                # Here, the records are pairs.
                yield dataclasses.replace(entry, is_record=False)
            else:
                images[entry.image_id] = [str(text) for _, text in entry.captions]
    yield from caption_pairs("pin_test", images.items())
