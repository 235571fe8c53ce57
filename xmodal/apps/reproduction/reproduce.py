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
compares its metrics with every number of the results; `reproduced.json` in --workdir/results/NAME
reports it, with the processor. The exit code is 1 if a
number is outside of its tolerance, other than an unverified one, and 2 if files are missing.
Folders are those in `XMODAL_TEST_DATA`, or --folder=NAME=PATH. The name of a group, the part before
the slash, stands for all of its systems that have commands. `--write_tables` makes the tables of
configs/results.md in the working directory again.
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
from xmodal.apps.reproduction.entries import Folders, PublishedResults, System, fill, read_results
from xmodal.apps.reproduction.reproduced import (
    Numbers,
    compare_rows,
    describe_verdict,
    format_report,
    is_reproduced,
    tabulate_checks,
)
from xmodal.apps.reproduction.tables import count_rows, rewrite_pages
from xmodal.core import console
from xmodal.core.config import suggest
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_numbers
from xmodal.core.result_files import write_file
from xmodal.core.text_table import align_columns, format_table

OUTSIDE, MISSING = 1, 2


@console.readable_errors()
def main() -> None:
    """Lists the results, or runs the systems that the command line names."""
    args = _parse()
    results = read_results()
    if args.write_tables:
        changed = rewrite_pages(results, pathlib.Path())
        print("\n".join(f"{page} was changed." for page in changed) or "Nothing changed.")
        return
    folders = results.find_folders(args.folder)
    runs, systems = args.names or args.all, list(results.systems.values())
    if runs or args.available or args.minutes is not None or args.seeds is not None:
        found = folders if args.available else None
        systems = choose_systems(results, args.names, found, args.minutes, args.seeds)
    if not runs or not systems:
        print(list_results(results, folders, systems))
        return
    sys.exit(Reproduction(results, folders, pathlib.Path(args.workdir).absolute()).run(systems))


def find_systems(results: PublishedResults, names: Sequence[str]) -> list[System]:
    """Returns the systems of names, and those of groups; all for no name."""
    found: dict[str, System] = {}
    for name in names or results.titles:
        group = f"{name.partition('/')[0]}/"
        near = {each: system for each, system in results.systems.items() if each.startswith(group)}
        if name not in near and name not in results.titles:
            raise UserError(
                f"{name!r} is not in configs/results; "
                f"{suggest([name], list(near) or results.titles)}"
            )
        found |= {name: near[name]} if name in near else near
    return list(found.values())


def choose_systems(
    results: PublishedResults,
    names: Sequence[str],
    folders: Folders | None = None,
    minutes: float | None = None,
    seeds: int | None = None,
) -> list[System]:
    """Returns the systems to run, of names or groups; of all that have commands without names.

    Args:
      results: the results.
      names: names of systems, or of groups; none for all that have commands.
      folders: leaves out systems whose files these folders lack; None keeps them.
      minutes: leaves out those that take longer, or an unknown time; None keeps them.
      seeds: the number of seeds of each, at most; None for all of them.
    """
    found = [system.first_seeds(seeds) for system in find_systems(results, names)]
    for system in found:
        if system.name in names and not system.run:
            raise UserError(f"{system.name} has no command: {system.note or system.parity}")
    return [
        system
        for system in found
        if system.run
        and (minutes is None or (system.minutes or math.inf) <= minutes)
        and (folders is None or not results.missing(system, folders))
    ]


class Reproduction:
    """Runs the commands of systems, and compares their metrics with the results."""

    def __init__(self, results: PublishedResults, folders: Folders, work: pathlib.Path) -> None:
        """Reads `folders`, by their name in braces, and writes everything to the folder `work`."""
        self._published, self._folders, self._work = results, folders, work

    def run(self, systems: Sequence[System]) -> int:
        """Runs systems and reports each of them; returns the exit code.

        All files are looked for before anything runs. A system whose commands fail does not keep
        the others from running.
        """
        missing = {
            self._published.files[key].describe_missing(names): None
            for system in systems
            for key, names in self._published.missing(system, self._folders).items()
        }
        if missing:
            print("\n".join(f"Error: {each}" for each in missing), file=sys.stderr)
            return MISSING
        failed = [system.name for system in systems if not self._reproduce(system)]
        if len(systems) > 1:
            inside = f"{len(systems) - len(failed)} of {len(systems)} systems"
            named = f"; outside or failed: {', '.join(failed)}" if failed else ""
            print(f"{inside} have no number outside{named}")
        return OUTSIDE if failed else 0

    def _reproduce(self, system: System) -> bool:
        """Runs and reports a system; returns whether no number is outside."""
        start = sum(os.times()[2:4])  # Of processes that have ended.
        try:
            metrics = self.compute_metrics(system)
        except UserError as error:
            print(f"Error: {system.name}: {error}", file=sys.stderr)
            return False
        checks = compare_rows(self._published.of_system(system.name), metrics)
        commands = [shlex.join(words) for seed in _seeds(system)
                    for words in self.commands(system, seed)]  # fmt: skip
        report = format_report(system, checks, commands)
        write_file(self._results(system) / "reproduced.json", report)
        minutes = (sum(os.times()[2:4]) - start) / 60
        verdict = f"{describe_verdict(checks)}, in {minutes:.1f} CPU minutes"
        table = format_table(tabulate_checks(checks))
        print(f"\n{system.name}: {verdict}\n\n{table}\n", flush=True)
        return is_reproduced(checks) is not False

    def commands(self, system: System, seed: int | None = None) -> list[list[str]]:
        """Returns the arguments of `xmodal` for each command of a system, for one seed."""
        places = {name: str(folder) for name, folder in self._folders.items()} | {
            "work": str(self._work),
            "model": str(self._work / "models" / system.name),
            "seed": str(seed),
            "out": str(self._results(system, seed)),
        }
        # Words are split first: a folder's name may have spaces.
        return [[fill(word, places) for word in words] for words in map(shlex.split, system.run)]

    def compute_metrics(self, system: System) -> list[Numbers]:
        """Runs a system's commands; returns the metrics of every seed.

        A command whose weights exist already is left out; runs that ended before are not repeated;
        evaluations are, and replace those of other code.
        """
        found = []
        for seed in _seeds(system):
            for words in self.commands(system, seed):
                outputs = [w.partition("=")[2] for w in words if w.startswith("--output=")]
                if words[0] == "convert" and outputs and os.path.exists(outputs[0]):
                    continue
                words += ["--overwrite"] if words[0] == "evaluate" and outputs else []
                print(f"xmodal {shlex.join(words)}", flush=True)
                ended = subprocess.run([sys.executable, "-m", "xmodal", *words])
                if ended.returncode:
                    raise UserError(
                        f"`xmodal {words[0]}` ended with {ended.returncode}; see above."
                    )
            found.append(_read(self._results(system, seed)))
        return found

    def _results(self, system: System, seed: int | None = None) -> pathlib.Path:
        """The folder of a system's results, of one seed."""
        folder = self._work / "results" / system.name
        return folder if seed is None else folder / f"seed_{seed}"


def _seeds(system: System) -> Sequence[int | None]:
    return system.seeds or (None,)


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


def list_results(results: PublishedResults, folders: Folders, systems: Sequence[System]) -> str:
    """Returns the groups, and a line per system: rows, status, missing files or commands."""
    parts, ready = [], [x for x in systems if x.run and not results.missing(x, folders)]
    for group, title in results.titles.items():
        lines = []
        for each in (system for system in systems if system.name.startswith(f"{group}/")):
            counts = collections.Counter(row.status for row in results.of_system(each.name))
            statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
            if each in ready:
                seeds = f", {len(each.seeds)} seeds" if len(each.seeds) > 1 else ""
                minutes = f", {math.ceil(each.minutes)} CPU minutes" if each.minutes else ""
                what = f"{len(each.run)} commands{seeds}{minutes}"
            elif each.run:
                what = f"missing: {', '.join(results.missing(each, folders))}"
            else:
                what = each.note or f"tested by {each.parity}"
            lines.append([f"  {each.name}", statuses, what])
        if lines:
            parts.append(f"{title}\n{align_columns(lines, right=())}")
    minutes = math.ceil(sum(each.minutes or 0 for each in ready))
    parts += [
        "`xmodal reproduce NAME` names the sources of missing files; `--help` explains statuses.",
        f"{len(ready)} systems can run here; those of known time take {minutes:,} CPU minutes.",
        count_rows(results).replace("\n", " "),
    ]
    return "\n\n".join(parts)


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
    return parser.parse_args()


if __name__ == "__main__":
    console.run(main)
