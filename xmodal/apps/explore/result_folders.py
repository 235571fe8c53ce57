"""Finds the results of models that the command line, or a caller, names."""

import collections
import glob
import os
from collections.abc import Mapping, Sequence

from etils import epath

from xmodal.apps.analysis.agreement.metric_tables import find_same, load_object
from xmodal.core.errors import UserError
from xmodal.core.result_files import FINAL
from xmodal.evals.reports.results import evaluator_tag
from xmodal.evals.reports.store import SINGLE, find_evaluations

_NUMBERS = "metrics.json"


def read_names(models: Sequence[str]) -> dict[str, str]:
    """Returns name -> folder for arguments `[NAME=]FOLDER`."""
    folders = list(map(_read_name, models))
    counts = collections.Counter(name for name, _ in folders)
    if shared := [name for name, count in counts.items() if count > 1]:
        places = " and ".join(at for name, at in folders if name == shared[0])
        raise UserError(f"{places} share the name {shared[0]!r}: write NAME=FOLDER.")
    return dict(folders)


def _read_name(given: str) -> tuple[str, str]:
    """The name and the folder of an argument; either may have "=", too."""
    parts = given.split("=")
    readings = [("=".join(parts[:end]), "=".join(parts[end:])) for end in range(len(parts))]
    there = (each for each in readings if epath.Path(each[1]).exists())
    name, folder = next(there, readings[-1])
    is_pattern = glob.has_magic(folder) and not epath.Path(folder).exists()
    return name or (folder if is_pattern else os.path.basename(os.path.normpath(folder))), folder


def find_runs(given: str | os.PathLike) -> list[epath.Path]:
    """The results in a folder, or in all folders of a pattern."""
    found = [] if epath.Path(given).exists() else sorted(glob.glob(os.fspath(given)))
    return [_find(each) for each in found if os.path.isdir(each)] or [_find(given)]


def _find(folder: str | os.PathLike) -> epath.Path:
    path = epath.Path(folder)
    for place in (path, path / FINAL):
        if (place / _NUMBERS).exists():
            return place
    raise UserError(f"{path} is neither a finished run nor the results of an evaluation.")


def evaluations_of(folders: Mapping[str, epath.Path]) -> dict[str, dict[str, epath.Path]]:
    """Model -> evaluator -> its folder, where an evaluator has one name for all models.

    A single evaluation, as of own functions, has the name of the evaluator of another model's run
    that has the same labels and records; `SINGLE` if all are single.
    """
    found = {model: find_evaluations(folder) for model, folder in folders.items()}
    named = next((each for each in found.values() if each and SINGLE not in each), None)
    for model, each in found.items():
        if named and SINGLE in each:
            same = find_same(each[SINGLE], named)
            if len(same) != 1:
                places = ", ".join(map(str, named.values()))
                raise UserError(
                    f"The labels and records of {model} in {folders[model]} are those of "
                    f"{'several' if same else 'none'} of {places}: evaluate on the same split, or "
                    "name one of these folders in place of the run."
                )
            found[model] = {same[0]: each[SINGLE]}
    return found


def tag_of(evaluator: str, tag: str) -> str:
    """Returns the tag in `metrics.json` of a metric of an evaluation."""
    return tag if evaluator == SINGLE else evaluator_tag(evaluator, tag)


def read_seed(results: epath.Path) -> str:
    """Returns the seed of the run that has these results; "" if it is not known."""
    config = results.parent / "config.json"
    return str(load_object(config).get("seed", "")) if config.exists() else ""
