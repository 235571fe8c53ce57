"""Commands that print a table computed from one CSV file of human judgments."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from data_prep.reading.csv_files import read_csv
from xmodal.apps.arguments import make_parser
from xmodal.core import console
from xmodal.core.text_table import Rows, format_table


@console.readable_errors()
def print_outcome(
    command: str,
    description: str | None,
    flag: str,
    columns: Sequence[str],
    outcome: Callable[[list[Mapping[str, str]]], Rows],
) -> None:
    """Prints the table for the file on the command line, or exits with an error.

    Args:
      command: name of the command.
      description: its description.
      flag: flag that names the file.
      columns: columns that the file must have.
      outcome: function from rows by column to the cells of the table.
    """
    parser = make_parser(command, description)
    parser.add_argument(flag, dest="file", required=True, help="csv file, gzipped or not")
    parser.add_argument("--latex", action="store_true", help="LaTeX in place of Markdown")
    args = parser.parse_args()
    cells = outcome([row for _, row in read_csv(pathlib.Path(args.file), columns=columns)])
    print(format_table(cells, "latex" if args.latex else "markdown"))
