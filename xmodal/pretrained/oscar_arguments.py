"""Arguments that microsoft/Oscar trained a model with: `training_args.bin` in its folder.

Its evaluation takes lengths, tags and case from this file, too (oscar/run_retrieval.py,
restore_training_settings).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained.torch_files import read_arguments
from xmodal.pretrained.weight_files import WeightSource

FILE = "training_args.bin"

# Those of VinVL_MODEL_ZOO.md. The first five describe the inputs.
_DEFAULTS: Mapping[str, Any] = {
    "max_seq_length": 70,
    "max_img_seq_length": 70,
    "add_od_labels": True,
    "do_lower_case": True,
    "od_label_type": "vg",
    "att_mask_type": "CLR",
    "output_mode": "classification",
    "num_labels": 2,
    "loss_type": "sfmx",
}
_FIXED = ("od_label_type", "att_mask_type", "output_mode", "num_labels", "loss_type")
_LEAST = {"max_seq_length": 3, "max_img_seq_length": 1}  # A word between [CLS] and [SEP].
# All that a pretraining shares with retrieval: its lengths are others.
_OF_PRETRAINING = ("do_lower_case",)


@dataclasses.dataclass(frozen=True)
class OscarArguments:
    """The inputs of a model.

    Attributes:
      words: most tokens of a caption and of the tags after it.
      regions: regions of an image that are used, the first ones.
      tags: whether a detector's objects follow the caption.
      lower_case: whether words are lower-cased.
      note: the values that are assumed and the reason; "" if there are none.
    """

    words: int
    regions: int
    tags: bool
    lower_case: bool
    note: str


def read_oscar_arguments(source: WeightSource, *, retrieves: bool) -> OscarArguments:
    """Returns the arguments of a folder, and the published ones of retrieval in place of others.

    Args:
      source: the folder.
      retrieves: whether the model was trained for retrieval, not pretrained.

    Raises:
      UserError: the file is not one of Oscar, or asks for a model that cannot be computed here.
    """
    path = source.beside(FILE)
    stored = read_arguments(path) if path.exists() else {}
    names = tuple(_DEFAULTS) if retrieves else _OF_PRETRAINING
    given = {name: stored[name] for name in names if name in stored}
    for name, value in given.items():
        _check(name, value)
    values = {**_DEFAULTS, **given}
    for name in _FIXED:
        has_use = name != "od_label_type" or values["add_od_labels"]
        if has_use and values[name] != _DEFAULTS[name]:
            raise UserError(
                f"its {FILE} has {name}={values[name]!r}, and only {_DEFAULTS[name]!r} can be "
                "computed here: convert a folder that was trained so."
            )
    assumed = {name: value for name, value in _DEFAULTS.items() if name not in given}
    return OscarArguments(
        words=values["max_seq_length"],
        regions=values["max_img_seq_length"],
        tags=values["add_od_labels"],
        lower_case=values["do_lower_case"],
        note=_explain(assumed, is_there=path.exists(), retrieves=retrieves),
    )


def _check(name: str, value: Any) -> None:
    """Refuses values of another type, such as objects that were not loaded, and short lengths."""
    kind = type(_DEFAULTS[name])
    if type(value) is not kind or (name in _LEAST and value < _LEAST[name]):
        at_least = f" of at least {_LEAST[name]}" if name in _LEAST else ""
        shown = repr(value) if isinstance(value, int | float | str) else type(value).__name__
        raise UserError(
            f"its {FILE} has {name}={shown:.80}, not of the type {kind.__name__}{at_least}: it is "
            "damaged or of another program; get the folder again."
        )


def _explain(assumed: Mapping[str, Any], *, is_there: bool, retrieves: bool) -> str:
    if not assumed:
        return ""
    reason = f"{FILE} lacks them" if is_there else f"there is no {FILE}"
    if is_there and not retrieves:
        reason = f"{FILE} is of the pretraining, not of retrieval"
    values = ", ".join(f"{name}={value!r}" for name, value in assumed.items())
    return f"Assumed as in VinVL's retrieval, since {reason}: {values}."
