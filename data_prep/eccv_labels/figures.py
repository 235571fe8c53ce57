"""What the label files of ECCV Caption are known to hold, for `data_prep.validate`."""

from data_prep.checks.figures import Figure, Known
from data_prep.eccv_labels.eccv_labels_dataset_builder import Builder

_BEYOND = "captions 144675 and 467259 are not among the 25,000 of the test split"


def _figures(config: str) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for name, count in Builder.EXPECTED.items():
        if not name.startswith(f"{config}/"):
            continue
        _, task, what = name.split("/")
        kind = f"with task={task}"
        if what == "queries":
            figures[f"test/rows {kind}"] = count
        elif what == "positives":
            figures[f"test/positive_ids {kind}"] = count
        else:
            figures[f"test/unreachable_ids {kind}"] = Known(count, _BEYOND) if count else 0
    return figures


FIGURES: dict[str, dict[str, Figure]] = {
    "gallery": {"test/records": 5000, "test/rows with fold=?": 1000},
    "eccv": _figures("eccv") | {"test/caption_ids not found": Known(2, _BEYOND)},
} | {config: _figures(config) for config in ("cxc", "original", "plausible_matches")}

JOINS = {name: ("eccv_labels/gallery", "coco_captions/captions") for name in FIGURES}
