"""Commands that print a result computed from one CSV file of human judgments."""

import argparse
import pathlib
from collections.abc import Callable, Mapping, Sequence

from data_prep.errors import UnexpectedFilesError
from data_prep.reading.csv_files import read_csv
from xmodal.base import console


@console.readable_errors(FileNotFoundError, UnexpectedFilesError)
def print_outcome(
    command: str,
    description: str | None,
    flag: str,
    columns: Sequence[str],
    outcome: Callable[[list[Mapping[str, str]]], str],
) -> None:
    """Prints the result for the file on the command line, or exits with an error.

    Args:
      command: name of the command.
      description: its description.
      flag: flag that names the file.
      columns: columns that the file must have.
      outcome: function from rows by column to the text to print.
    """
    parser = argparse.ArgumentParser(
        prog=f"xmodal {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(flag, dest="file", required=True, help="csv file, gzipped or not")
    path = pathlib.Path(parser.parse_args().file)
    print(outcome([row for _, row in read_csv(path, columns=columns)]))
