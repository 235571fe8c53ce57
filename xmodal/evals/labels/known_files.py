"""The released files by name: where to take them from, and how much they hold when whole."""

from collections.abc import Mapping
from pathlib import Path

from xmodal import cxc_files

_ECCV = "https://github.com/naver-ai/eccv-caption/tree/main/eccv_caption/data"
_PCME = "https://github.com/naver-ai/pcme/tree/main/datasets/annotations"
_COCO = "https://cocodataset.org/#download"

OWN = "original_caption_to_image.json"
# Split -> caption ids in the order of Karpathy's split; from ECCV Caption and from PCME.
ORDERS = {"test": "coco_test_ids.npy", "validation": "coco_dev_ids.npy"}
# The table says the same as the file of COCO, in one row per image.
CATEGORIES = ("val2014_categories.npz", "instances_val2014.json")
# Released lists of the test split -> retrieval task -> file.
LISTS = {
    name: {"i2t": f"{name}_image_to_caption.json", "t2i": f"{name}_caption_to_image.json"}
    for name in ("eccv", "cxc")
}
# Split -> images with an object; the other few of its 5,000 have none.
_LABELLED_IMAGES = {"test": 4_952, "validation": 4_948}

# File -> counted quantity -> its released number.
_COUNTS: dict[str, dict[str, int]] = {
    **{f"{file}.csv": {"pairs": pairs} for file, pairs in cxc_files.PAIRS.items()},
    **{name: {"captions": 25_000} for name in ORDERS.values()},
    OWN: {"queries": 25_000, "positives": 25_000},
    "eccv_caption_to_image.json": {"queries": 1_332, "positives": 11_279},
    "eccv_image_to_caption.json": {"queries": 1_261, "positives": 22_550},
    "cxc_caption_to_image.json": {"queries": 24_972, "positives": 35_585},
    "cxc_image_to_caption.json": {"queries": 5_000, "positives": 35_585},
}


def ratings_file(task: str, split: str) -> str:
    """The file of a task of Crisscrossed Captions."""
    return f"{task}_{cxc_files.SPLITS[split]}.csv"


def names_of(split: str) -> list[str]:
    """All files that say something about a split."""
    names = [ratings_file(task, split) for task in cxc_files.TASKS]
    names += [ORDERS[split], *CATEGORIES]
    if split == "test":
        names += [OWN, *(name for tasks in LISTS.values() for name in tasks.values())]
    return sorted(names)


def url_of(path: Path) -> str:
    """Where a file was released."""
    if path.suffix == ".csv":
        return cxc_files.HOME
    if path.name in CATEGORIES:
        return _COCO
    return _PCME if path.name == ORDERS["validation"] else _ECCV


def describe_difference(name: str, split: str, found: Mapping[str, int]) -> str:
    """Returns how the counts of a file differ from the released ones.

    Args:
      name: of the file.
      split: the split that was read.
      found: quantity -> its number; `pairs` of ratings, `captions` of an
        order, `queries` and `positives` of lists, `categories` and `images` that have one.

    Returns:
      "sts_test.csv holds 2,999 pairs instead of 44,045"; "" for a file as released.
    """
    expected = _COUNTS.get(name) or {"categories": 80, "images": _LABELLED_IMAGES[split]}
    wrong = [
        f"{found[what]:,} {what} instead of {number:,}"
        for what, number in expected.items()
        if found[what] != number
    ]
    return f"{name} holds {' and '.join(wrong)}" if wrong else ""
