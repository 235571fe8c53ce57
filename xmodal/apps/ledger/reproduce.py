"""Checks the numbers that papers and this project print: lists them, or runs their commands.

    python -m xmodal reproduce
    python -m xmodal reproduce clip/vit_b32 --folder=weights=DIR --folder=coco=DIR
    python -m xmodal reproduce --available --minutes=5
    python -m xmodal reproduce --all --available --minutes=5 --seeds=1

The list names every system, a model or method of a table, with the number of its rows by status,
and the missing files of this machine; --available, --minutes and --seeds restrict it to the runs of
--all with them. The statuses:

    measured here  the row was computed with this project
    parity only    not computed, but a test compares the implementation with the publisher's
    needs files    not computed; the files have to be downloaded first
    unverified     the published numbers were not checked in their source
    not covered    no command computes the row

`reproduce NAME` looks for the files of a system, runs its commands (see `configs/results`), and
compares its metrics with every number of the ledger; `reproduced.md` and `reproduced.json`
in --workdir/results/NAME report it, with the processor. The exit code is 1 if a
number is outside of its tolerance, other than an unverified one, and 2 if files are missing.
Folders are those in `XMODAL_TEST_DATA`, or --folder=NAME=PATH. The name of a group, the part before
the slash, stands for all of its systems that have commands. `--write_tables` makes the tables of
configs/results.md in the working directory again. `--write_published=papers.csv`
writes the papers' numbers, of all systems or of those that are named, for
`xmodal board --published=papers.csv`; unverified ones are left out.
"""

import argparse
import collections
import math
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Sequence

from etils import epath

from xmodal.apps.arguments import make_parser, positive_int
from xmodal.apps.ledger.ledger_entries import Ledger, System, fill, read_ledger
from xmodal.apps.ledger.ledger_files import (
    Folders,
    describe_missing,
    folders_of,
    missing_files,
)
from xmodal.apps.ledger.ledger_tables import count_rows, rewrite_pages
from xmodal.apps.ledger.reproduced import (
    Numbers,
    compare_rows,
    describe_verdict,
    format_checks,
    is_reproduced,
    write_report,
)
from xmodal.core import console
from xmodal.core.config import suggest
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_numbers
from xmodal.core.result_files import csv_text, write_file
from xmodal.core.text_table import align_columns

OUTSIDE, MISSING = 1, 2


@console.readable_errors()
def main() -> None:
    """Lists the ledger, or runs the systems that the command line names."""
    args = _parse()
    ledger = read_ledger()
    if args.write_tables:
        changed = rewrite_pages(ledger, pathlib.Path())
        print("\n".join(f"{page} was changed." for page in changed) or "Nothing changed.")
        return
    if args.write_published:
        text = published_csv(ledger, args.names)
        write_file(args.write_published, text)
        print(f"{args.write_published} has {len(text.splitlines()) - 1} published numbers.")
        return
    folders = folders_of(ledger, args.folder)
    runs, systems = args.names or args.all, list(ledger.systems.values())
    if runs or args.available or args.minutes is not None or args.seeds is not None:
        found = folders if args.available else None
        systems = choose_systems(ledger, args.names, found, args.minutes, args.seeds)
    if not systems:
        raise UserError("No system fits --available and --minutes; `xmodal reproduce` lists both.")
    if not runs:
        print(list_ledger(ledger, folders, systems))
        return
    sys.exit(reproduce(systems, ledger, folders, pathlib.Path(args.workdir).absolute()))


def find_systems(ledger: Ledger, names: Sequence[str]) -> list[System]:
    """Returns the systems of names, and those of groups; all for no name."""
    found: dict[str, System] = {}
    for name in names:
        group = f"{name.partition('/')[0]}/"
        near = {each: system for each, system in ledger.systems.items() if each.startswith(group)}
        if name not in near and name not in ledger.titles:
            raise UserError(
                f"{name!r} is not in the ledger; {suggest([name], list(near) or ledger.titles)}"
            )
        found |= {name: near[name]} if name in near else near
    return list(found.values()) if names else list(ledger.systems.values())


def choose_systems(
    ledger: Ledger,
    names: Sequence[str],
    folders: Folders | None,
    minutes: float | None,
    seeds: int | None = None,
) -> list[System]:
    """Returns the systems to run.

    Args:
      ledger: the ledger.
      names: names of systems, or of groups; none for all that have commands.
      folders: leaves out systems whose files these folders lack; None keeps them.
      minutes: leaves out those that take longer, or an unknown time; None keeps them.
      seeds: the number of seeds of each, at most; None for all of them.
    """
    chosen = []
    for system in find_systems(ledger, names):
        system = system.first_seeds(seeds)
        if not system.run:
            if system.name in names:
                raise UserError(f"{system.name} has no command: {system.note or system.parity}")
        elif folders is not None and missing_files(system, ledger, folders):
            continue
        elif minutes is None or (system.minutes is not None and system.minutes <= minutes):
            chosen.append(system)
    return chosen


def reproduce(
    systems: Sequence[System], ledger: Ledger, folders: Folders, work: pathlib.Path
) -> int:
    """Runs systems and reports each of them; returns the exit code.

    All files are looked for before anything runs. A system whose commands fail does not keep the
    others from running.
    """
    missing: dict[str, list[str]] = {}
    for system in systems:
        for key, names in missing_files(system, ledger, folders).items():
            missing[key] = list(dict.fromkeys([*missing.get(key, ()), *names]))
    if missing:
        print(f"Error: {describe_missing(missing, ledger)}", file=sys.stderr)
        return MISSING
    codes = {each.name: _reproduce_one(each, ledger, folders, work) for each in systems}
    if len(codes) > 1:
        failed = [name for name, code in codes.items() if code]
        named = f"; outside or failed: {', '.join(failed)}" if failed else ""
        inside = len(codes) - len(failed)
        print(f"{inside} of {len(codes)} systems have no number outside{named}")
    return max(codes.values(), default=0)


def _reproduce_one(system: System, ledger: Ledger, folders: Folders, work: pathlib.Path) -> int:
    start = sum(os.times()[2:4])  # Of processes that have ended.
    try:
        metrics = run_system(system, ledger, folders, work)
    except UserError as error:
        print(f"Error: {system.name}: {error}", file=sys.stderr)
        return OUTSIDE
    checks = compare_rows(ledger.of_system(system.name), metrics)
    commands = [
        shlex.join(arguments)
        for seed in system.seeds or (None,)
        for arguments in commands_of(system, ledger, folders, work, seed)
    ]
    write_report(_results_of(system, work), system, checks, commands)
    minutes = (sum(os.times()[2:4]) - start) / 60
    verdict = f"{describe_verdict(checks)}, in {minutes:.1f} CPU minutes"
    print(f"\n{system.name}: {verdict}\n\n{format_checks(checks)}\n", flush=True)
    return OUTSIDE if is_reproduced(checks) is False else 0


def commands_of(
    system: System, ledger: Ledger, folders: Folders, work: pathlib.Path, seed: int | None = None
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
    places["out"] = str(_results_of(system, work, seed))
    # Words are split first: a folder's name may have spaces.
    whole = map(shlex.split, ledger.commands_of(system))
    return [[fill(word, places) for word in words] for words in whole]


def run_system(
    system: System, ledger: Ledger, folders: Folders, work: pathlib.Path
) -> list[Numbers]:
    """Runs a system's commands; returns the metrics of every seed.

    A command whose weights exist already is left out; runs that ended before are not repeated;
    evaluations are, and replace those of other code.
    """
    found = []
    for seed in system.seeds or (None,):
        for arguments in commands_of(system, ledger, folders, work, seed):
            prefix = "--output="
            outputs = [word.removeprefix(prefix) for word in arguments if word.startswith(prefix)]
            if arguments[0] == "convert" and outputs and os.path.exists(outputs[0]):
                continue
            replaces = arguments[0] == "evaluate" and outputs
            _run([*arguments, "--overwrite"] if replaces else arguments)
        found.append(_read(_results_of(system, work, seed)))
    return found


def _results_of(system: System, work: pathlib.Path, seed: int | None = None) -> pathlib.Path:
    """The folder of a system's results, of one seed."""
    folder = work / "results" / system.name
    return folder if seed is None else folder / f"seed_{seed}"


def _run(arguments: Sequence[str]) -> None:
    print(f"xmodal {shlex.join(arguments)}", flush=True)
    ended = subprocess.run([sys.executable, "-m", "xmodal", *arguments])
    if ended.returncode:
        raise UserError(f"`xmodal {arguments[0]}` ended with {ended.returncode}; see above.")


def _read(folder: pathlib.Path) -> Numbers:
    """The metrics of an evaluation, of a run, or of the evaluators in a folder."""
    remedy = "remove the folder and repeat the command."
    for name in ("metrics.json", "test/metrics.json"):
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


def published_csv(ledger: Ledger, names: Sequence[str] = ()) -> str:
    """Returns the papers' numbers in the units of metrics, as `xmodal board` reads them.

    Args:
      ledger: the ledger.
      names: see `find_systems`.
    """
    systems = find_systems(ledger, names)
    lines = [
        (f"{row.label} ({row.table.name})", tag, repr(value.number / row.table.scale))
        for row in ledger.rows
        if row.system in systems and not row.table.unverified
        for tag, value in row.published.items()
        if value.number is not None
    ]
    if not lines:
        raise UserError(f"No paper's number of {', '.join(names)} was checked in its source.")
    return csv_text([("model", "metric", "value"), *lines])


def list_ledger(ledger: Ledger, folders: Folders, systems: Sequence[System]) -> str:
    """Returns the groups, and a line per system: rows, status, missing files or commands."""
    parts = []
    for group, title in ledger.titles.items():
        lines = []
        for each in systems:
            if each.name.startswith(f"{group}/"):
                counts = collections.Counter(row.status for row in ledger.of_system(each.name))
                statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
                lines.append([f"  {each.name}", statuses, _next(each, ledger, folders)])
        if lines:
            parts.append(f"{title}\n{align_columns(lines, right=())}")
    ready = [each for each in systems if each.run and not missing_files(each, ledger, folders)]
    minutes = math.ceil(sum(each.minutes or 0 for each in ready))
    parts += [
        "`xmodal reproduce NAME` names the sources of missing files; `--help` explains statuses.",
        f"{len(ready)} systems can run here; those of known time take {minutes:,} CPU minutes.",
        count_rows(ledger).replace("\n", " "),
    ]
    return "\n\n".join(parts)


def _next(system: System, ledger: Ledger, folders: Folders) -> str:
    if not system.run:
        return system.note or f"tested by {system.parity}"
    if missing := missing_files(system, ledger, folders):
        return f"missing: {', '.join(missing)}"
    steps = [command.split()[0] for command in ledger.commands_of(system)]
    counts = ", ".join(f"{steps.count(step)} {step}" for step in dict.fromkeys(steps))
    seeds = f", {len(system.seeds)} seeds" if len(system.seeds) > 1 else ""
    minutes = f", {math.ceil(system.minutes)} CPU minutes" if system.minutes else ""
    return f"would run {counts}{seeds}{minutes}"


def _parse() -> argparse.Namespace:
    parser = make_parser("reproduce", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="systems or groups, as listed")
    parser.add_argument(
        "--folder", action="append", default=[], metavar="NAME=PATH", help="folder of files"
    )
    parser.add_argument("--all", action="store_true", help="all systems that have commands")
    parser.add_argument("--available", action="store_true", help="only those with all files")
    parser.add_argument("--minutes", type=float, help="only those known to take no longer (CPU)")
    parser.add_argument("--seeds", type=positive_int, help="at most this many seeds of each")
    parser.add_argument("--workdir", default="reproduced", help="folder of everything written")
    parser.add_argument("--write_tables", action="store_true", help="make Markdown tables again")
    parser.add_argument("--write_published", metavar="FILE", help="CSV of papers for `board`")
    return parser.parse_args()


if __name__ == "__main__":
    console.run(main)
