"""What Crisscrossed Captions are known to hold, for `data_prep.validate`.

Counts and structure: Parekh et al. 2021 and the released files; mean scores of the released files.
"""

from data_prep.checks.figures import Figure, Known, Within
from data_prep.cxc.cxc_dataset_builder import Builder

# Task/method -> mean score in validation and test.
_MEANS = {
    "sts/c2c_isim": (1.368, 1.375),
    "sts/c2c_cocaption": (2.992, 3.141),
    "sis/i2i_csim": (2.726, 2.047),
    "sits/c2i_intrasim": (3.241, 2.906),
    "sits/c2i_original": (4.850, 4.891),
}
_TWICE = "rated in both orders, with two scores"
_SIS = "pairs in both orders with task=sis, method=i2i_csim"


def _figures(task: str) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for name, count in Builder.EXPECTED.items():
        of_task, split, method = name.split("/")
        if of_task == task:
            kind = f"with task={task}, method={method}"
            figures[f"{split}/rows {kind}"] = count
            mean = _MEANS[f"{task}/{method}"][split == "test"]
            figures[f"{split}/mean score {kind}"] = mean
            figures[f"{split}/* score {kind}"] = Within(0, 5)
            if task == "sts":
                figures[f"{split}/pairs in both orders {kind}"] = 0
    if task == "sis":
        figures |= {f"validation/{_SIS}": Known(2253, _TWICE), f"test/{_SIS}": Known(2863, _TWICE)}
    return figures


FIGURES = {f"{task}*": _figures(task) for task in ("sts", "sis", "sits")}
# The names of the tasks begin alike, and of two tables for one row the first counts.
JOINS = {"*": ("coco_captions/captions", "coco_captions/images")}
