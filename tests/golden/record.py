"""Records what the commands of a checkout do, to compare it with another checkout.

    python -m tests.golden.record --output=FOLDER [--only=REGEX] [--checkout=DIR]
    python -m tests.golden.compare OLD NEW

Writes FOLDER/CASE.json for every case of `cases`: exit codes, output, names of files, and the
numbers of all results and TensorBoard curves. The files themselves are in FOLDER/work. The commands
run in processes of their own, so that a record does not depend on how packages are arranged.

--only records the cases whose names match, and those whose files they read, unless FOLDER has them.
--resume continues a record that was stopped.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import time
from typing import Any

from tests.golden.cases import CommandLine, make_cases, needed
from tests.golden.commands import run_command
from tests.golden.files import read_folder
from tests.golden.inputs import write_inputs


def in_order(cases: dict[str, list[CommandLine]], wanted: list[str]) -> list[str]:
    """Returns the names of the wanted cases, each after all cases whose files it reads."""
    order: dict[str, None] = {}
    for name in wanted:
        if name not in order:
            for other in in_order(cases, sorted(needed(cases[name]) - {name})):
                order.setdefault(other)
            order.setdefault(name)
    return list(order)


class Recorder:
    """Runs the cases of a checkout and keeps their files in one folder."""

    def __init__(self, checkout: pathlib.Path, output: pathlib.Path) -> None:
        """Makes the folder of the record with the files that the cases read."""
        self._checkout, self._output, self._work = checkout, output, output / "work"
        if not (self._work / "files").exists():
            write_inputs(self._work / "files")
        self._masks = {
            str(self._work): "WORK",
            str(checkout): "CHECKOUT",
            str(pathlib.Path(sys.prefix)): "PYTHON",
        }

    def path(self, name: str) -> pathlib.Path:
        """Returns the file of a recorded case."""
        return self._output / f"{name.replace('/', '_')}.json"

    def record(self, name: str, argvs: list[CommandLine]) -> list[int]:
        """Runs a case, writes its record, and returns the exit codes of its commands."""
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Datasets live in the folder of the case that builds them.
        places = {each: self._work / each for each in {*needed(argvs), "data", "files"}}
        runs: list[dict[str, Any]] = []
        for argv in argvs:
            filled = [part.format_map({"out": folder} | places) for part in argv]
            runs.append(run_command(filled, self._checkout, places["data"], self._masks))
        found = {} if name == "data" else read_folder(folder, self._masks)
        content = {"commands": runs} | found
        self.path(name).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
        return [run["exit"] for run in runs]


def main() -> None:
    """Records the cases that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the record")
    parser.add_argument("--only", default="", help="regular expression searched in names of cases")
    parser.add_argument("--resume", action="store_true", help="keep cases that are recorded")
    parser.add_argument(
        "--checkout",
        type=pathlib.Path,
        default=pathlib.Path(__file__).parents[2],
        help="the code to run; by default the checkout of this file",
    )
    args = parser.parse_args()
    cases = make_cases()
    wanted = [name for name in cases if re.search(args.only, name)]
    recorder = Recorder(args.checkout.resolve(), args.output.resolve())
    for name in in_order(cases, wanted):
        if (args.resume or name not in wanted) and recorder.path(name).exists():
            continue
        start, before = time.monotonic(), os.times()
        codes = recorder.record(name, cases[name])
        after = os.times()
        cpu = after.children_user - before.children_user
        print(
            f"{name:32} {time.monotonic() - start:5.1f} s, {cpu:5.1f} s of CPU  exit {codes}",
            flush=True,
        )


if __name__ == "__main__":
    main()
