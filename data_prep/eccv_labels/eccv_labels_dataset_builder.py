"""ECCV Caption: which captions and images of the MS-COCO test split belong together."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.eccv_labels.label_files import ENDS, LabeledGallery, read_gallery, read_positives

_FOLD_IMAGES = 1000
# Builder config -> start of the names of its files.
_LISTS = {"eccv": "eccv", "cxc": "cxc", "original": "original", "plausible_matches": "pm"}
# Number of queries, of positives, and of positives that nothing can retrieve.
_PUBLISHED = {
    ("eccv", "i2t"): (1261, 22_550, 2),
    ("eccv", "t2i"): (1332, 11_279, 0),
    ("cxc", "i2t"): (5000, 35_585, 0),
    ("cxc", "t2i"): (24_972, 35_585, 0),
    ("original", "i2t"): (5000, 25_000, 0),
    ("original", "t2i"): (25_000, 25_000, 0),
    ("plausible_matches", "i2t"): (4726,),
    ("plausible_matches", "t2i"): (24_760,),
}


class Builder(RandomAccessBuilder):
    """TFDS builder of the released lists of positives, one example per query.

    Ids are those of COCO. Positives are kept as released: two captions that ECCV Caption lists are
    not among the 25,000 of the test split. Nothing can retrieve them, but published figures count
    them. `unreachable_ids` lists them.
    """

    VERSION = tfds.core.Version("1.1.0")
    BUILDER_CONFIGS = configs(
        eccv="Positives of ECCV Caption.",
        cxc="Pairs that CxC rates 3 or higher.",
        original="Captions and their own images.",
        gallery="Images in order, with caption ids.",
        plausible_matches="Images with nearly the same objects.",
    )
    HOMEPAGE = "https://github.com/naver-ai/eccv-caption"
    EXPECTED: ClassVar[dict[str, int]] = {"images": 5000, "captions": 25_000} | {
        f"{config}/{direction}/{kind}": count
        for (config, direction), counts in _PUBLISHED.items()
        for kind, count in zip(("queries", "positives", "unreachable"), counts, strict=False)
    }

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name != "gallery":
            return schema.positive_features()
        ids = tfds.features.Sequence(np.int32)
        return tfds.features.FeaturesDict(
            {"image_id": np.int32, "caption_ids": ids, "fold": np.int32}
        )

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        gallery = read_gallery(folder)
        found = {"images": len(gallery.captions), "captions": len(gallery.image_of)}
        name = self.builder_config.name
        rows: list[Record | LeftOut] = []
        for direction, ending in ENDS.items() if name != "gallery" else ():
            path = folder / f"{_LISTS[name]}_{ending}.json"
            own: list[dict[str, Any]] = [
                {
                    "direction": direction,
                    "query_id": query,
                    "positive_ids": ids,
                    "unreachable_ids": [i for i in ids if i not in gallery.items(direction)],
                }
                for query, ids in read_positives(path).items()
            ]
            beyond = {str(each["query_id"]): each["unreachable_ids"] for each in own}
            self.info.metadata.setdefault("unreachable", {})[direction] = {
                query: ids for query, ids in beyond.items() if ids
            }
            found[f"{name}/{direction}/queries"] = len(own)
            found[f"{name}/{direction}/positives"] = sum(len(x["positive_ids"]) for x in own)
            found[f"{name}/{direction}/unreachable"] = sum(map(len, beyond.values()))
            queries = gallery.items("t2i" if direction == "i2t" else "i2t")
            for each in own:
                key = f"{direction}/{each['query_id']}"
                is_known = each["query_id"] in queries
                fault = LeftOut(f"{path} {key}", "query outside of the test split")
                rows.append((key, each) if is_known else fault)
        expected = {key: count for key, count in self.EXPECTED.items() if key in found}
        schema.check_counts(found, expected, str(folder))
        return {"test": _gallery_examples(gallery) if name == "gallery" else rows}


def _gallery_examples(gallery: LabeledGallery) -> Iterator[Record]:
    for place, (image, captions) in enumerate(gallery.captions.items()):
        fold = place // _FOLD_IMAGES
        yield image, {"image_id": image, "caption_ids": captions, "fold": fold}
