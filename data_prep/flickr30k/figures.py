"""What Flickr30k holds in Karpathy's split and in that of Entities, for `data_prep.validate`."""

from data_prep.checks.figures import Figure
from data_prep.flickr30k.flickr30k_dataset_builder import Builder


def _figures(split_sizes: dict[str, int]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {"*/captions of an image": "5"}
    for split, images in split_sizes.items():
        if split != "captions":
            figures |= {f"{split}/records": images, f"{split}/captions": 5 * images}
    return figures


_KARPATHY = _figures(Builder.EXPECTED["karpathy"])

FIGURES: dict[str, dict[str, Figure]] = {
    "images": _KARPATHY,
    "captions": _KARPATHY,
    "entities": _figures(Builder.EXPECTED["entities"]),
}
