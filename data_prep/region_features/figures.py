"""What the features that SCAN released hold, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Unknown
from data_prep.region_features.region_features_dataset_builder import Builder, split_name


def _figures(images: dict[str, int]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {
        "*/captions of an image": "5",
        "testall/* also in test": Unknown("test is the first part of testall"),
    }
    for name, count in images.items():
        split = split_name(name)
        figures |= {f"{split}/records": count, f"{split}/captions": 5 * count}
    return figures


FIGURES: dict[str, dict[str, Figure]] = {
    config.name: _figures(config.images) for config in Builder.BUILDER_CONFIGS
}
