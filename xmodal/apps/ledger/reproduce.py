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

`reproduce NAME` checks the files of a system, runs its commands (see `configs/results`), and
compares its metrics with every number of the ledger; `reproduced.md`, `reproduced.tex` and
`reproduced.json` in --workdir/results/NAME report it, with the processor. The exit code is 1 if a
number is outside of its tolerance, other than an unverified one, and 2 if files are missing.
Folders are those in `XMODAL_TEST_DATA`, or --folder=NAME=PATH. The name of a group, the part before
the slash, stands for all of its systems that have commands. `--write_tables` makes the tables of
README.md and configs/results.md in the working directory again, and `--write_latex=tables.tex`
writes them in LaTeX. `--write_published=papers.csv` writes the papers' numbers, of all systems or
of those that are named, for `xmodal board --published=papers.csv`; unverified ones are left out.
"""

import argparse
import collections
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence

from xmodal.apps.arguments import make_parser, positive_int
from xmodal.apps.ledger.available import check_files, describe_missing, folders_of, missing_files
from xmodal.apps.ledger.comparison import (
    compare_rows,
    describe_verdict,
    format_checks,
    is_reproduced,
    write_report,
)
from xmodal.apps.ledger.ledger_entries import Ledger, System, read_ledger
from xmodal.apps.ledger.ledger_tables import count_rows, rewrite_pages, tables_as_latex
from xmodal.apps.ledger.system_commands import commands_of, results_of, run_system
from xmodal.core import console
from xmodal.core.config import suggest
from xmodal.core.errors import UserError
from xmodal.core.result_files import csv_text, write_file
from xmodal.core.text_table import align_columns

OUTSIDE, MISSING = 1, 2
Folders = Mapping[str, pathlib.Path]


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
    if args.write_latex:
        write_file(args.write_latex, tables_as_latex(ledger))
        print(f"{args.write_latex} has the tables of all pages.")
        return
    folders = folders_of(ledger, args.folder)
    runs, systems = bool(args.names or args.all), list(ledger.systems.values())
    if runs or args.available or args.minutes is not None or args.seeds is not None:
        found = folders if args.available else None
        systems = choose_systems(ledger, args.names, found, args.minutes, args.seeds)
    if not systems:
        raise UserError(
            "No system fits --available and --minutes; `xmodal reproduce` lists what each of them "
            "lacks, and its minutes."
        )
    if not runs:
        print(list_ledger(ledger, folders, systems))
        return
    sys.exit(reproduce(systems, ledger, folders, pathlib.Path(args.workdir).absolute()))


def find_systems(ledger: Ledger, names: Sequence[str]) -> list[System]:
    """Returns the systems of names, and those of groups; all for none.

    Raises:
      UserError: a name is unknown.
    """
    found: dict[str, System] = {}
    for name in names:
        group = f"{name.partition('/')[0]}/"
        near = {each: system for each, system in ledger.systems.items() if each.startswith(group)}
        if name in near:
            found[name] = near[name]
        elif name in ledger.titles and near:
            found |= near
        else:
            raise UserError(
                f"{name!r} is not in the ledger; {suggest([name], list(near) or ledger.titles)}"
            )
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

    Raises:
      UserError: a name is unknown, or of a system without commands.
    """
    chosen = [
        system if seeds is None else system.first_seeds(seeds)
        for system in find_systems(ledger, names)
    ]
    for system in chosen:
        if system.name in names and not system.run:
            raise UserError(f"{system.name} has no command: {system.note or system.parity}")
    return [
        system
        for system in chosen
        if system.run
        and (folders is None or not missing_files(system, ledger, folders))
        and (minutes is None or (system.minutes is not None and system.minutes <= minutes))
    ]


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
            # Systems may need other files of one set.
            missing[key] = list(dict.fromkeys([*missing.get(key, ()), *names]))
    if missing:
        print(f"Error: {describe_missing(missing, ledger)}", file=sys.stderr)
        return MISSING
    codes = {each.name: _reproduce_one(each, ledger, folders, work) for each in systems}
    if len(codes) > 1:
        print(_summary(codes))
    return max(codes.values(), default=0)


def _summary(codes: Mapping[str, int]) -> str:
    failed = [name for name, code in codes.items() if code]
    named = f"; outside or failed: {', '.join(failed)}" if failed else ""
    return f"{len(codes) - len(failed)} of {len(codes)} systems have no number outside{named}"


def _reproduce_one(system: System, ledger: Ledger, folders: Folders, work: pathlib.Path) -> int:
    start = _cpu_minutes()
    try:
        check_files(system, ledger, folders)
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
    write_report(results_of(system, work), system, checks, commands)
    verdict = f"{describe_verdict(checks)}, in {_cpu_minutes() - start:.1f} CPU minutes"
    print(f"\n{system.name}: {verdict}\n\n{format_checks(checks)}\n", flush=True)
    return OUTSIDE if is_reproduced(checks) is False else 0


def _cpu_minutes() -> float:
    """Those of all commands so far."""
    times = os.times()
    return (times.children_user + times.children_system) / 60


def published_csv(ledger: Ledger, names: Sequence[str] = ()) -> str:
    """Returns the papers' numbers in the units of metrics, as `xmodal board` reads them.

    Args:
      ledger: the ledger.
      names: see `find_systems`.

    Raises:
      UserError: a name is unknown, or no number of the systems is published.
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
        own = [system for system in systems if system.name.startswith(f"{group}/")]
        lines = [
            [f"  {each.name}", _statuses(each, ledger), _next(each, ledger, folders)]
            for each in own
        ]
        if lines:
            parts.append(f"{title}\n{align_columns(lines, right=())}")
    parts.append(
        "`xmodal reproduce NAME` names the sources of missing files; `--help` explains statuses."
    )
    ready = [each for each in systems if each.run and not missing_files(each, ledger, folders)]
    known = [each.minutes for each in ready if each.minutes is not None]
    minutes = f"{len(ready)} systems can run here, in up to {math.ceil(sum(known)):,} CPU minutes"
    others = len(ready) - len(known)
    parts.append(f"{minutes} and the unknown time of {others}." if others else f"{minutes}.")
    return "\n\n".join([*parts, count_rows(ledger).replace("\n", " ")])


def _statuses(system: System, ledger: Ledger) -> str:
    counts = collections.Counter(row.status for row in ledger.of_system(system.name))
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def _next(system: System, ledger: Ledger, folders: Folders) -> str:
    if not system.run:
        return system.note or f"tested by {system.parity}"
    if missing := missing_files(system, ledger, folders):
        return f"missing: {', '.join(missing)}"
    work = pathlib.Path()
    counts = collections.Counter(each[0] for each in commands_of(system, ledger, folders, work))
    steps = ", ".join(f"{n} x {step}" if n > 1 else step for step, n in counts.items())
    seeds = f", {len(system.seeds)} seeds" if len(system.seeds) > 1 else ""
    count = math.ceil(system.minutes or 0)
    minutes = f", {count} CPU {'minute' if count == 1 else 'minutes'}" if count else ""
    return f"would run {steps}{seeds}{minutes}"


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
    parser.add_argument("--write_latex", metavar="FILE", help="the same tables in LaTeX")
    parser.add_argument("--write_published", metavar="FILE", help="CSV of papers for `board`")
    return parser.parse_args()


if __name__ == "__main__":
    console.run(main)
