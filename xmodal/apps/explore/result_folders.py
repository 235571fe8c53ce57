"""Finds the results that arguments of `compare` and `leaderboard` name."""

import glob
import itertools
import os
from collections.abc import Sequence

from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import FINAL, read_json, split_folders
from xmodal.evals.reports.evaluation import SINGLE, find_evaluations, find_same, load_ranks


def find_runs(given: str | os.PathLike) -> list[epath.Path]:
    """Returns the results of a folder or of several, in the order of their seeds.

    Args:
      given: a run or results; a folder of runs `seed_*`; a pattern; or a list of these with commas.
    """
    folders: list[str] = []
    for part in split_folders(os.fspath(given)):
        found = [part] if epath.Path(part).exists() else sorted(glob.glob(part))
        folders += [each for each in found if os.path.isdir(each)] or [part]
    seeds = ([*epath.Path(each).glob("seed_*")] or [epath.Path(each)] for each in folders)
    places = []
    for folder in itertools.chain(*seeds):
        place = folder if (folder / "metrics.json").exists() else folder / FINAL
        if not (place / "metrics.json").exists():
            raise UserError(f"{folder} is neither a finished run nor the results of an evaluation.")
        places.append(place)
    return sorted(places, key=lambda place: (read_seed(place), os.fspath(place)))


def read_seed(results: epath.Path) -> str:
    """Returns the seed of the run that has these results, by config or folder; "" for none."""
    config = results.parent / "config.json"
    found = read_json(config, "use another folder.") if config.exists() else {}
    names = [each.name for each in (results, results.parent) if each.name.startswith("seed_")]
    return str(found.get("seed", "".join(names).removeprefix("seed_")))


def match_evaluations(folders: Sequence[epath.Path]) -> dict[epath.Path, dict[str, epath.Path]]:
    """Returns results -> evaluator -> its folder, where an evaluator has one name for all results.

    A single evaluation, as of own functions, has the name of the evaluator of another model's run
    that has the same labels and records; `SINGLE` if all are single.
    """
    found = {folder: find_evaluations(folder) for folder in folders}
    named = next((each for each in found.values() if each and SINGLE not in each), None)
    for folder, each in found.items():
        if named and SINGLE in each:
            single = load_ranks(each[SINGLE])
            same = find_same(single.hashes, single.provenance.records, named)
            if len(same) != 1:
                places = ", ".join(map(str, named.values()))
                raise UserError(
                    f"The labels and records of {folder} are those of "
                    f"{'several' if same else 'none'} of {places}: evaluate on the same split, or "
                    "name one of these folders in place of the run."
                )
            found[folder] = {same[0]: each[SINGLE]}
    return found
