"""Tiny stand-ins for all published layouts that the builders read, with expected counts."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tests.data_prep.fuzzing import captioned, fetched, labeled
from tests.data_prep.fuzzing.contents import Images

_FLICKR8K = "data_prep.flickr8k.flickr8k_dataset_builder.Builder"
_COCO = "data_prep.coco_captions.coco_captions_dataset_builder.Builder"
_CXC = "data_prep.cxc.cxc_dataset_builder.Builder"
_ECCV = "data_prep.eccv_labels.eccv_labels_dataset_builder.Builder"
_CLUE = "data_prep.clue.clue_dataset_builder.Builder"
_CITE = "data_prep.cite.cite_dataset_builder.Builder"
_CC = "data_prep.conceptual_captions.conceptual_captions_dataset_builder.Builder"
_SBU = "data_prep.sbu.sbu_dataset_builder.Builder"
_PINTEREST = "data_prep.pinterest.pinterest_dataset_builder.Builder"
_REGIONS = "data_prep.region_features.region_features_dataset_builder.Builder"
_FLICKR30K = "data_prep.flickr30k.flickr30k_dataset_builder.Builder"


@dataclasses.dataclass(frozen=True)
class StandIn:
    """The files of one builder config.

    Attributes:
      dataset: key of `data_prep.BUILDERS`.
      config: builder config.
      write: writes the files into a folder; image number n contains `images(n)`.
      patches: attributes to set so that the builder expects these few records.
      num_images: number of images; 0 without pixels.
      is_counted: whether the published counts determine the number of records.
    """

    dataset: str
    config: str
    write: Callable[[Any, Images], None]
    patches: Mapping[str, Any]
    num_images: int = 0
    is_counted: bool = True
    layout: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.dataset, self.config, self.layout)))


STAND_INS = (
    StandIn(
        "flickr8k",
        "images",
        captioned.flickr8k,
        {f"{_FLICKR8K}.EXPECTED": captioned.FLICKR8K_COUNTS},
        5,
    ),
    StandIn(
        "flickr8k",
        "images",
        captioned.flickr8k_tidy,
        {f"{_FLICKR8K}.EXPECTED": captioned.FLICKR8K_COUNTS},
        5,
        layout="tidy",
    ),
    StandIn(
        "flickr8k",
        "ratings",
        captioned.flickr8k,
        {f"{_FLICKR8K}.EXPECTED": captioned.FLICKR8K_COUNTS},
    ),
    StandIn(
        "flickr8k",
        "features",
        captioned.flickr8k_tidy,
        {f"{_FLICKR8K}.EXPECTED": captioned.FLICKR8K_COUNTS},
    ),
    StandIn(
        "coco_captions",
        "images",
        captioned.karpathy,
        {f"{_COCO}.EXPECTED": captioned.COCO_COUNTS},
        6,
    ),
    StandIn(
        "coco_captions",
        "im2txt",
        captioned.official_coco,
        {f"{_COCO}.EXPECTED": captioned.COCO_COUNTS | {"captions": 44}},
        22,
    ),
    StandIn("coco_captions", "captions", captioned.plain_captions, {}, is_counted=False),
    StandIn("cxc", "sts_captions", labeled.cxc, {f"{_CXC}.EXPECTED": labeled.CXC_COUNTS}),
    StandIn("cxc", "sits_images", labeled.cxc, {f"{_CXC}.EXPECTED": labeled.CXC_COUNTS}, 2),
    StandIn(
        "semeval_sts",
        "pairs",
        labeled.semeval_official,
        labeled.SEMEVAL_PATCHES,
        layout="official",
    ),
    StandIn(
        "semeval_sts", "pairs", labeled.semeval_pasted, labeled.SEMEVAL_PATCHES, layout="pasted"
    ),
    StandIn("semeval_sts", "pairs", labeled.semeval_table, labeled.SEMEVAL_PATCHES, layout="table"),
    StandIn("eccv_labels", "eccv", labeled.eccv, {f"{_ECCV}.EXPECTED": labeled.ECCV_COUNTS}),
    StandIn("clue", "labels", labeled.clue, {f"{_CLUE}.EXPECTED": labeled.CLUE_COUNTS}),
    StandIn("clue", "images", labeled.clue, {f"{_CLUE}.EXPECTED": labeled.CLUE_COUNTS}, 7),
    StandIn("cite", "labels", labeled.cite, {f"{_CITE}.EXPECTED": {"train": 5}}),
    StandIn(
        "cite", "plus_images", labeled.cite, {f"{_CITE}.EXPECTED_PLUS": {"train": 3, "test": 2}}, 5
    ),
    *(
        StandIn(
            "conceptual_captions",
            "images",
            fetched.conceptual(layout),
            {f"{_CC}.EXPECTED": {"train": 5, "validation": 3}},
            8,
            layout=layout,
        )
        for layout in ("webdataset", "parquet", "names")
    ),
    StandIn(
        "sbu", "images", fetched.sbu, {f"{_SBU}.EXPECTED": {"rows": 8}, f"{_SBU}.HELD_OUT": 2}, 8
    ),
    StandIn(
        "pinterest",
        "images",
        fetched.pinterest,
        {
            f"{_PINTEREST}.FILES": {"train": range(1), "validation": [1], "test": [2]},
            f"{_PINTEREST}.EXPECTED": {f"pin_2016_v1_{n:04d}.npy": 2 for n in range(3)},
        },
        6,
    ),
    *(
        StandIn(
            "flickr30k",
            config,
            captioned.flickr30k,
            {
                f"{_FLICKR30K}.EXPECTED": {
                    "karpathy": captioned.FLICKR30K_COUNTS,
                    "entities": captioned.FLICKR30K_COUNTS,
                }
            },
            4,
        )
        for config in ("images", "entities")
    ),
    StandIn("region_features", "regions", captioned.regions, {}, is_counted=False),
    *(
        StandIn(
            "region_features",
            "coco_detections",
            captioned.detections(layout),
            {f"{_REGIONS}.EXPECTED": {"coco_detections": {"train": 3, "validation": 1, "test": 2}}},
            layout=layout,
        )
        for layout in ("tsv", "hdf5", "npz")
    ),
)
