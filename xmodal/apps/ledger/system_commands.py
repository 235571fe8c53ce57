"""Runs the commands of a system, each as a process, and reads their metrics."""

import pathlib
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

from etils import epath

from xmodal.apps.ledger.ledger_entries import Ledger, System, fill
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_numbers

Numbers = dict[str, float]
# Where evaluations, and runs at their end, write them.
_METRICS = ("metrics.json", "test/metrics.json")


def commands_of(
    system: System,
    ledger: Ledger,
    folders: Mapping[str, pathlib.Path],
    work: pathlib.Path,
    seed: int | None = None,
) -> list[list[str]]:
    """Returns the arguments of `xmodal` for each command of a system, for one seed.

    Args:
      system: the system.
      ledger: its `commands` are parts of commands.
      folders: name in braces -> folder.
      work: folder for everything that is written.
      seed: the seed.
    """
    places = {name: str(folder) for name, folder in folders.items()}
    places |= {"work": str(work), "model": str(work / "models" / system.name), "seed": str(seed)}
    places["out"] = str(results_of(system, work, seed))
    # Words are split first: a folder's name may have spaces.
    whole = map(shlex.split, ledger.commands_of(system))
    return [[fill(word, places) for word in words] for words in whole]


def results_of(system: System, work: pathlib.Path, seed: int | None = None) -> pathlib.Path:
    """Returns the folder of a system's results, of one seed."""
    folder = work / "results" / system.name
    return folder if seed is None else folder / f"seed_{seed}"


def run_system(
    system: System,
    ledger: Ledger,
    folders: Mapping[str, pathlib.Path],
    work: pathlib.Path,
) -> list[Numbers]:
    """Runs a system's commands; returns the metrics of every seed.

    A command whose weights exist already is left out; runs that ended before are not repeated;
    evaluations are, and replace those of other code.

    Raises:
      UserError: a command failed, or wrote no metrics.
    """
    found = []
    for seed in system.seeds or (None,):
        for arguments in commands_of(system, ledger, folders, work, seed):
            output = _output(arguments)
            if arguments[0] == "evaluate" and output is not None:
                _run([*arguments, "--overwrite"])
            elif arguments[0] != "convert" or output is None or not output.exists():
                _run(arguments)
        found.append(_read(results_of(system, work, seed)))
    return found


def _output(arguments: Sequence[str]) -> pathlib.Path | None:
    given = (word.removeprefix("--output=") for word in arguments if word.startswith("--output="))
    return next(map(pathlib.Path, given), None)


def _run(arguments: Sequence[str]) -> None:
    print(f"xmodal {shlex.join(arguments)}", flush=True)
    ended = subprocess.run([sys.executable, "-m", "xmodal", *arguments])
    if ended.returncode:
        raise UserError(f"`xmodal {arguments[0]}` ended with {ended.returncode}; see above.")


def _read(folder: pathlib.Path) -> Numbers:
    """The metrics of an evaluation, of a run, or of the evaluators in a folder."""
    remedy = "remove the folder and repeat the command."
    for name in _METRICS:
        if (path := folder / name).exists():
            return read_numbers(epath.Path(path), remedy)
    parts = {path.parent.name: path for path in sorted(folder.glob("*/metrics.json"))}
    if not parts:
        raise UserError(f"{folder} holds no metrics: {remedy}")
    return {
        f"{name}/{tag.removeprefix(f'{name}/')}": number
        for name, path in parts.items()
        for tag, number in read_numbers(epath.Path(path), remedy).items()
    }
