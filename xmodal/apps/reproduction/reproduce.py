"""Checks the numbers that papers and this project print: lists them, or runs their commands.

    python -m xmodal reproduce
    python -m xmodal reproduce --list cxc vete
    python -m xmodal reproduce clip/vit_b32 --folder=weights=DIR --folder=coco=DIR
    python -m xmodal reproduce --available --minutes=5
    python -m xmodal reproduce --all --available --minutes=5 --seeds=1
    python -m xmodal reproduce vete/bow --draws=100

The list names every system, a model or method of a table, with the number of its printed cells by
status, and the missing files of this machine; --available, --minutes and --seeds restrict it to the
runs of --all with them. `--list NAME` adds the commands of each system; for a group also those of
the systems of other groups in its tables. The statuses:

    measured here  the number was computed with this project
    parity only    not computed, but a test compares the implementation with the publisher's
    needs files    not computed; a command does, once its files are downloaded
    unverified     the published number was not checked in its source
    not covered    no command computes it; the list says why

`reproduce NAME` looks for the files of a system, runs its commands (see `configs/results`), and
compares its metrics with every number of the results; `reproduced.json` in --workdir/results/NAME
reports it, with the processor. The exit code is 1 if a
number is outside of its tolerance, other than an unverified one, and 2 if files are missing.
Folders are those in `XMODAL_TEST_DATA`, or --folder=NAME=PATH. The name of a group, the part before
the slash, stands for all of its systems that have commands. `--write_tables` makes the tables of
configs/results.md in the working directory again.

Rows of VETE are searches: --draws settings are drawn at random, avg2016 chooses one of them, and
its other numbers are compared (algorithm 1). The paper draws 100.
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
from xmodal.apps.reproduction.entries import (
    Folders,
    LedgerRow,
    PublishedResults,
    System,
    fill,
    read_results,
)
from xmodal.apps.reproduction.reproduced import (
    Numbers,
    compare_rows,
    describe_verdict,
    format_report,
    is_reproduced,
    tabulate_checks,
)
from xmodal.apps.reproduction.tables import count_cells, fill_page
from xmodal.core import console
from xmodal.core.config import suggest
from xmodal.core.errors import UserError
from xmodal.core.files import read_numbers, write_file
from xmodal.core.text_table import align_columns, format_table

OUTSIDE, MISSING = 1, 2
DRAWS = 10  # Of a search.
_REMEDY = "remove the folder and repeat the command."


@console.readable_errors()
def main() -> None:
    """Lists the results, or runs the systems that the command line names."""
    args = _parse()
    results = read_results()
    if args.write_tables:
        for page in {row.table.page for row in results.rows if row.table.page}:
            text = pathlib.Path(page).read_text(encoding="utf-8")
            pathlib.Path(page).write_text(fill_page(text, results), encoding="utf-8")
            print(f"{page} was written.")
        return
    folders = results.find_folders(args.folder)
    found = find_systems(results, args.names, of_tables=args.list)
    systems = [system.first_seeds(args.seeds) for system in found]
    runs = (args.names or args.all) and not args.list
    if runs or args.available or args.minutes is not None or args.seeds is not None:
        minutes = math.inf if args.minutes is None else args.minutes
        systems = [
            system
            for system in systems
            if system.run
            and (system.minutes or math.inf) <= minutes
            and not (args.available and results.missing(system, folders))
        ]
    work = pathlib.Path(args.workdir).absolute()
    reproduction = Reproduction(results, folders, work, args.draws)
    if runs and systems:
        sys.exit(reproduction.run(systems))
    print(list_results(results, folders, systems))
    for system in systems if args.names else ():
        rows = [_describe(row) for row in results.of_system(system.name)]
        commands = [shlex.join(["xmodal", *words]) for words in reproduction.commands(system)]
        print(f"\n{system.name}, {system.label}", *rows, *commands, sep="\n  ")


def find_systems(
    results: PublishedResults, names: Sequence[str], *, of_tables: bool = False
) -> list[System]:
    """Returns the systems of names, and those of groups; all for no name.

    With `of_tables`, a group has also the systems of others that its tables have rows of.
    """
    found: dict[str, System] = {}
    for name in names or results.titles:
        near = {key: x for key, x in results.systems.items() if name in (key, key.split("/")[0])}
        if not near:
            group = [each for each in results.systems if each.split("/")[0] == name.split("/")[0]]
            known = suggest([name], group or list(results.titles))
            raise UserError(f"{name!r} is not in configs/results; {known}")
        others = results.rows if of_tables and names else ()
        found |= near | {
            x.system.name: x.system for x in others if x.table.name.split("/")[0] == name
        }
    return list(found.values())


class Reproduction:
    """Runs the commands of systems, and compares their metrics with the results."""

    def __init__(
        self, results: PublishedResults, folders: Folders, work: pathlib.Path, draws: int = DRAWS
    ) -> None:
        """Reads `folders`, by their name in braces, and writes everything to the folder `work`.

        A search has `draws` trials.
        """
        self._published, self._folders, self._work = results, folders, work
        self._draws = draws

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
        start = sum(os.times()[2:4])  # CPU seconds of processes that have ended.
        seeds = system.seeds or (None,)
        try:
            metrics = [self._compute_metrics(system, seed) for seed in seeds]
        except UserError as error:
            print(f"Error: {system.name}: {error}", file=sys.stderr)
            return False
        checks = compare_rows(self._published.of_system(system.name), metrics)
        commands = [shlex.join(x) for seed in seeds for x in self.commands(system, seed)]
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
            "draws": str(self._draws),
            "out": str(self._results(system, seed)),
        }
        # Words are split first: a folder's name may have spaces.
        return [[fill(word, places) for word in words] for words in map(shlex.split, system.run)]

    def _compute_metrics(self, system: System, seed: int | None) -> Numbers:
        """Runs a system's commands with a seed; returns the metrics.

        A command whose weights exist already is left out; runs that ended before are not repeated;
        evaluations are, and replace those of other code.
        """
        for words in self.commands(system, seed):
            outputs = [w.partition("=")[2] for w in words if w.startswith("--output=")]
            if words[0] == "convert" and outputs and os.path.exists(outputs[0]):
                continue
            words += ["--overwrite"] if words[0] == "evaluate" and outputs else []
            print(f"xmodal {shlex.join(words)}", flush=True)
            ended = subprocess.run([sys.executable, "-m", "xmodal", *words])
            if ended.returncode:
                raise UserError(f"`xmodal {words[0]}` ended with {ended.returncode}; see above.")
        folder = epath.Path(self._results(system, seed))
        for name in ("metrics.json", "test/metrics.json"):
            if (folder / name).exists():
                return read_numbers(folder / name, _REMEDY)
        return {  # With several evaluators.
            f"{path.parent.name}/{tag.removeprefix(f'{path.parent.name}/')}": number
            for path in sorted(folder.glob("*/metrics.json"))
            for tag, number in read_numbers(path, _REMEDY).items()
        }

    def _results(self, system: System, seed: int | None = None) -> pathlib.Path:
        """The folder of a system's results, of one seed."""
        folder = self._work / "results" / system.name
        return folder if seed is None else folder / f"seed_{seed}"


def list_results(results: PublishedResults, folders: Folders, systems: Sequence[System]) -> str:
    """Returns the groups with a line per system, and the cells of their tables by status."""
    groups: dict[str, list[list[str]]] = {group: [] for group in results.titles}
    ready = []
    for each in systems:
        statuses = _count(results.of_system(each.name))
        if not each.run:
            what = each.note or f"tested by {each.parity}"
        elif missing := results.missing(each, folders):
            what = f"missing: {', '.join(missing)}"
        else:
            ready.append(each)
            seeds = f", {len(each.seeds)} seeds" if len(each.seeds) > 1 else ""
            minutes = f", {math.ceil(each.minutes)} CPU minutes" if each.minutes else ""
            what = f"{len(each.run)} commands{seeds}{minutes}"
        groups[each.name.split("/")[0]].append([f"  {each.name}", statuses, what])
    total = math.ceil(sum(each.minutes or 0 for each in ready))
    named = [group for group, lines in groups.items() if lines]
    tables = [f"{results.titles[x]}\n{align_columns(groups[x], right=())}" for x in named]
    return "\n\n".join([
        *tables,
        "`xmodal reproduce NAME` names the sources of missing files; `--help` explains statuses.",
        f"{len(ready)} systems can run here; those of known time take {total:,} CPU minutes.",
        format_table(count_cells(results, named)),
    ])  # fmt: skip


def _describe(row: LedgerRow) -> str:
    """Table, label among several rows of a system, and number of cells."""
    named = f", {row.label}" if row.label != row.system.label else ""
    cells = _count([row])
    return f"{row.table.name}{named}{cells and f': {cells}'}"


def _count(rows: Sequence[LedgerRow]) -> str:
    """The number of cells by status."""
    counts = collections.Counter(status for row in rows for status in row.statuses.values())
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def _parse() -> argparse.Namespace:
    parser = make_parser("reproduce", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="systems or groups, as listed")
    parser.add_argument(
        "--folder", action="append", default=[], metavar="NAME=PATH", help="folder of files"
    )
    parser.add_argument("--all", action="store_true", help="all systems that have commands")
    parser.add_argument("--list", action="store_true", help="list NAMEs, do not run them")
    parser.add_argument("--available", action="store_true", help="only those with all files")
    parser.add_argument("--minutes", type=float, help="only those known to take no longer (CPU)")
    parser.add_argument("--seeds", type=positive_int, help="at most this many seeds of each")
    parser.add_argument(
        "--draws", type=positive_int, default=DRAWS, help="trials of a search; VETE's paper has 100"
    )
    parser.add_argument("--workdir", default="reproduced", help="folder of everything written")
    parser.add_argument("--write_tables", action="store_true", help="make Markdown tables again")
    return parser.parse_args()


if __name__ == "__main__":
    console.run(main)
