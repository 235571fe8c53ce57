"""Results as rows of CLIP_benchmark's CSV (LAION-AI/CLIP_benchmark, `cli.py build`)."""

import re
from collections.abc import Mapping

from xmodal.core.files import csv_text

_KEYS = ("dataset", "model", "pretrained", "task")
# Our tags -> their task and column; groups are the dataset and the depth.
_COLUMNS = {
    r"(.+)/i2t/recall@(\d+)": ("zeroshot_retrieval", "text_retrieval_recall@{}"),
    r"(.+)/t2i/recall@(\d+)": ("zeroshot_retrieval", "image_retrieval_recall@{}"),
    r"(.*zero_shot)/accuracy@(\d+)": ("zeroshot_classification", "acc{}"),
    r"(.*zero_shot)/mean_class_accuracy()": ("zeroshot_classification", "mean_per_class_recall"),
    r"(.*linear_probe)/accuracy@(\d+)": ("linear_probe", "lp_acc{}"),
    r"(.*linear_probe)/mean_class_accuracy()": ("linear_probe", "lp_mean_per_class_recall"),
}


def format_clip_benchmark(models: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a CSV with a row per model and benchmark; metrics are shares, not percent.

    Args:
      models: model -> tag -> number, see `Comparison.metrics`.
    """
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    found = ((name, *tagged) for name, numbers in models.items() for tagged in numbers.items())
    for model, tag, value in found:
        for pattern, (task, column) in _COLUMNS.items():
            if matched := re.fullmatch(pattern, tag):
                row = rows.setdefault((matched[1], model, "xmodal", task), {})
                row[column.format(matched[2])] = value / 100
    names = sorted({name for row in rows.values() for name in row})
    lines = [[*key, *(row.get(name, "") for name in names)] for key, row in rows.items()]
    return csv_text([[*_KEYS, *names], *lines])
