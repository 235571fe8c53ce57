"""The released part of Pinterest40M: five million images, each with what several people wrote."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.records import LeftOut, Record
from data_prep.pinterest.pins import Pin, PinSpool, read_pins
from data_prep.published import Figure, Unknown
from data_prep.reading.fetched_images import RowIndex, join_rows, read_fetched

_LISTS = "pinterest_multimodal_2016_v1"
_COPIES = Unknown("a picture may be pinned from several pages")


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of the released part of Pinterest40M ("Pinterest5M").

    The id of an image is the number in its published name. The id of a caption is 2^24 times the
    number of its file plus the place of the sentence in the file, so that it depends on nothing but
    that file. The splits are those that its authors recommend, by files.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="images", description="Pins with all their sentences."),
        tfds.core.BuilderConfig(
            name="one_caption", description="The first sentence of every pin, as VETE trains."
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder
      - pinterest_multimodal_2016_v1/ with pin_2016_v1_0000.npy to pin_2016_v1_0099.npy, unpacked
        from pinterest_multimodal_2016_v1.tar.gz of
        https://github.com/mjhucla/P-Multimodal-Dataset-Toolbox
      - images/ with what could be fetched: the images that the toolbox saved, under their published
        names (pin_image_001004887.jpg), or the output of img2dataset (any of webdataset, parquet
        and files).
    """
    # Split -> numbers of the published files.
    FILES: ClassVar[dict[str, range]] = {
        "train": range(98),
        "validation": range(98, 99),
        "test": range(99, 100),
    }
    # All that was published about the size: what the toolbox prints of the first file.
    EXPECTED: ClassVar[dict[str, int]] = {"pin_2016_v1_0000.npy": 49_786}
    MIN_KEPT = 0.5

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=schema.captioned_image_features(tfds.features.Image(shape=(None, None, 3))),
            homepage="https://github.com/mjhucla/P-Multimodal-Dataset-Toolbox",
        )

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`."""
        figures: dict[str, Figure] = {
            "*/image also in *": _COPIES,
            "*/image and caption also in *": _COPIES,
        }
        return figures | ({"*/captions of an image": "1"} if config == "one_caption" else {})

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        lists, images = folder / _LISTS, folder / "images"
        for path in (lists, images):
            if not path.is_dir():
                raise FileNotFoundError(f"{path} does not exist")
        present = {path.name for path in lists.glob("pin_2016_v1_*.npy")}
        paths = {
            split: {number: lists / f"pin_2016_v1_{number:04d}.npy" for number in numbers}
            for split, numbers in self.FILES.items()
        }
        if missing := [
            p for files in paths.values() for p in files.values() if p.name not in present
        ]:
            raise FileNotFoundError(f"{missing[0]} does not exist ({len(missing)} are missing)")
        return {split: self._records(files, images) for split, files in paths.items()}

    def _records(
        self, files: Mapping[int, pathlib.Path], images: pathlib.Path
    ) -> Iterator[Record | LeftOut]:
        pins = PinSpool()
        for entry in self._entries(files):
            if isinstance(entry, LeftOut):
                yield entry
            else:
                pins.add(entry)
        urls, names = (
            RowIndex(getattr(pin, what) for pin in pins) for what in ("url", "image_name")
        )

        def rows_of_name(name: str) -> Sequence[int]:
            return names.rows(pathlib.PurePosixPath(name).name)

        joined = join_rows(
            read_fetched(images),
            len(pins),
            where=lambda row: pins[row].where,
            urls=urls.rows,
            names=rows_of_name,
        )
        only = 1 if self.builder_config.name == "one_caption" else None
        for item in joined:
            if isinstance(item, LeftOut):
                yield item
                continue
            row, fetched = item
            pin = pins[row]
            yield (
                pin.image_id,
                {
                    "image": fetched,
                    "image_id": pin.image_id,
                    "captions": [text for _, text in pin.sentences[:only]],
                    "caption_ids": [id_ for id_, _ in pin.sentences[:only]],
                },
            )

    def _entries(self, files: Mapping[int, pathlib.Path]) -> Iterator[Pin | LeftOut]:
        for number, path in files.items():
            pins = 0
            for entry in read_pins(path, number):
                pins += isinstance(entry, Pin)
                yield entry
            expected = {name: n for name, n in self.EXPECTED.items() if name == path.name}
            schema.check_counts({path.name: pins}, expected, str(path))
