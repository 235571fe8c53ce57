"""TFDS builders, one folder per dataset, and a table of their names.

The commands are the modules `build` and `validate`. `schema` has the features that datasets share;
`linked_captions` and `coherence_pairs` have the shared builders. Other folders are `building`
(checks, counts and hashes of records), `reading` (users' files), `untrusted` (bounds on files from
elsewhere), `checks` (for `validate`) and `sampling` (CxC's sampling scheme).
"""

import importlib
from typing import Any

# Import paths instead of classes, since builders are slow to import.
BUILDERS = {
    "captioned_images": "data_prep.captioned_images.captioned_images_dataset_builder:Builder",
    "class_folders": "data_prep.class_folders.class_folders_dataset_builder:Builder",
    "cite": "data_prep.cite.cite_dataset_builder:Builder",
    "clue": "data_prep.clue.clue_dataset_builder:Builder",
    "coco_captions": "data_prep.coco_captions.coco_captions_dataset_builder:Builder",
    "conceptual_captions": (
        "data_prep.conceptual_captions.conceptual_captions_dataset_builder:Builder"
    ),
    "crisscrossed_shapes": (
        "data_prep.crisscrossed_shapes.crisscrossed_shapes_dataset_builder:Builder"
    ),
    "cxc": "data_prep.cxc.cxc_dataset_builder:Builder",
    "eccv_labels": "data_prep.eccv_labels.eccv_labels_dataset_builder:Builder",
    "flickr30k": "data_prep.flickr30k.flickr30k_dataset_builder:Builder",
    "flickr8k": "data_prep.flickr8k.flickr8k_dataset_builder:Builder",
    "pinterest": "data_prep.pinterest.pinterest_dataset_builder:Builder",
    "region_features": "data_prep.region_features.region_features_dataset_builder:Builder",
    "sbu": "data_prep.sbu.sbu_dataset_builder:Builder",
    "semeval_sts": "data_prep.semeval_sts.semeval_sts_dataset_builder:Builder",
}


def builder_class(name: str) -> Any:
    """Imports the `tfds.core.GeneratorBasedBuilder` subclass of a dataset.

    Args:
      name: a key of `BUILDERS`.

    Raises:
      ValueError: the name is unknown.
    """
    if name not in BUILDERS:
        raise ValueError(f"unknown dataset {name!r}; known datasets: {', '.join(sorted(BUILDERS))}")
    module, attribute = BUILDERS[name].split(":")
    return getattr(importlib.import_module(module), attribute)
