"""ECCV Caption: which captions and images of the MS-COCO test split belong together."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import LeftOut, Record
from data_prep.eccv_labels.label_files import LabeledGallery, read_gallery, read_positives
from data_prep.published_figures import Figure, Known

_FOLD_IMAGES = 1000
# Builder config -> start of the names of its files.
_LISTS = {"eccv": "eccv", "cxc": "cxc", "original": "original", "plausible_matches": "pm"}
_FILES = {"i2t": "image_to_caption", "t2i": "caption_to_image"}
_BEYOND = "captions 144675 and 467259 are not among the 25,000 of the test split"


class Builder(RandomAccessBuilder):
    """TFDS builder of the released lists of positives, one example per query.

    Ids are those of COCO. Positives are kept as released: two captions that ECCV Caption lists are
    not among the 25,000 of the test split. Nothing can retrieve them, but published figures count
    them. `unreachable_ids` lists them.
    """

    VERSION = tfds.core.Version("1.1.0")
    REFERS_TO: ClassVar[tuple[str, ...]] = ("eccv_labels/gallery", "coco_captions/captions")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="eccv", description="Positives of ECCV Caption."),
        tfds.core.BuilderConfig(name="cxc", description="Pairs that CxC rates 3 or higher."),
        tfds.core.BuilderConfig(name="original", description="Captions and their own images."),
        tfds.core.BuilderConfig(name="gallery", description="Images in order, with caption ids."),
        tfds.core.BuilderConfig(
            name="plausible_matches", description="Images with nearly the same objects."
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put these files of https://github.com/naver-ai/eccv-caption/tree/main/eccv_caption/data
    into one folder:
      - coco_test_ids.npy, original_image_to_caption.json and original_caption_to_image.json
      - eccv_image_to_caption.json, eccv_caption_to_image.json (for the config eccv)
      - cxc_image_to_caption.json, cxc_caption_to_image.json (for cxc)
      - pm_image_to_caption.json, pm_caption_to_image.json (for plausible_matches), to which the
        README of that repository links.
    """
    HOMEPAGE = "https://github.com/naver-ai/eccv-caption"
    EXPECTED: ClassVar[dict[str, int]] = {
        "images": 5000,
        "captions": 25_000,
        "eccv/i2t/queries": 1261,
        "eccv/i2t/positives": 22_550,
        "eccv/t2i/queries": 1332,
        "eccv/t2i/positives": 11_279,
        "cxc/i2t/queries": 5000,
        "cxc/i2t/positives": 35_585,
        "cxc/t2i/queries": 24_972,
        "cxc/t2i/positives": 35_585,
        "original/i2t/queries": 5000,
        "original/i2t/positives": 25_000,
        "original/t2i/queries": 25_000,
        "original/t2i/positives": 25_000,
        "eccv/i2t/unreachable": 2,
        "eccv/t2i/unreachable": 0,
        "cxc/i2t/unreachable": 0,
        "cxc/t2i/unreachable": 0,
        "original/i2t/unreachable": 0,
        "original/t2i/unreachable": 0,
        "plausible_matches/i2t/queries": 4726,
        "plausible_matches/t2i/queries": 24_760,
    }

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name != "gallery":
            return schema.positive_features()
        ids = tfds.features.Sequence(np.int32)
        return tfds.features.FeaturesDict(
            {"image_id": np.int32, "caption_ids": ids, "fold": np.int32}
        )

    @classmethod
    def published_figures(cls, config: str) -> Mapping[str, Figure]:
        """See `RandomAccessBuilder`."""
        if config == "gallery":
            return {"test/records": 5000, "test/rows with fold=?": 1000}
        figures: dict[str, Figure] = {}
        if config == "eccv":
            figures["test/caption_ids not found"] = Known(2, _BEYOND)
        rows = {"queries": "rows", "positives": "positive_ids", "unreachable": "unreachable_ids"}
        for name, count in cls.EXPECTED.items():
            if name.startswith(f"{config}/"):
                _, direction, kind = name.split("/")
                figure = Known(count, _BEYOND) if count and kind == "unreachable" else count
                figures[f"test/{rows[kind]} with direction={direction}"] = figure
        return figures

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        gallery = read_gallery(folder)
        found = {"images": len(gallery.captions), "captions": len(gallery.image_of)}
        name = self.builder_config.name
        if name == "gallery":
            self._check_counts(found, folder)
            return {"test": _gallery_examples(gallery)}
        lists: dict[str, dict[int, list[int]]] = {}
        self.info.metadata["unreachable"] = {}
        for direction, ending in _FILES.items():
            positives = lists[direction] = read_positives(folder / f"{_LISTS[name]}_{ending}.json")
            items = gallery.items(direction)
            unreachable = {
                str(query): beyond
                for query, ids in positives.items()
                if (beyond := [item for item in ids if item not in items])
            }
            self.info.metadata["unreachable"][direction] = unreachable
            found[f"{name}/{direction}/queries"] = len(positives)
            found[f"{name}/{direction}/positives"] = sum(map(len, positives.values()))
            found[f"{name}/{direction}/unreachable"] = sum(map(len, unreachable.values()))
        self._check_counts(found, folder)
        return {"test": _query_examples(f"{folder}/{_LISTS[name]}", lists, gallery)}

    def _check_counts(self, found: Mapping[str, int], folder: pathlib.Path) -> None:
        expected = {name: count for name, count in self.EXPECTED.items() if name in found}
        schema.check_counts(found, expected, str(folder))


def _query_examples(
    source: str, lists: Mapping[str, Mapping[int, list[int]]], gallery: LabeledGallery
) -> Iterator[Record | LeftOut]:
    for direction, positives in lists.items():
        items = gallery.items(direction)
        queries = gallery.items("t2i" if direction == "i2t" else "i2t")
        for query, ids in positives.items():
            where = f"{source}_{_FILES[direction]}.json query {query}"
            if query not in queries:
                yield LeftOut(where, "query outside of the test split")
            elif len(set(ids)) < len(ids):
                yield LeftOut(where, "positive appears twice")
            else:
                yield (
                    f"{direction}/{query}",
                    {
                        "direction": direction,
                        "query_id": query,
                        "positive_ids": ids,
                        "unreachable_ids": [item for item in ids if item not in items],
                    },
                )


def _gallery_examples(gallery: LabeledGallery) -> Iterator[Record]:
    for place, (image, captions) in enumerate(gallery.captions.items()):
        yield (
            image,
            {"image_id": image, "caption_ids": captions, "fold": place // _FOLD_IMAGES},
        )
