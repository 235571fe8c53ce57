"""Checks a prepared dataset: `python -m data_prep.validate --dataset=flickr8k --data_dir=FOLDER`.

Prints one table per builder config. The exit code is 1 if anything is not as expected.
"""

import sys

import data_prep
from data_prep.command_line import check_config, make_parser
from xmodal.core import console
from xmodal.core.errors import NotPreparedError, UnexpectedFilesError
from xmodal.core.text_table import align_columns


@console.readable_errors(NotPreparedError, UnexpectedFilesError)
def main() -> None:
    """Checks the dataset that the command line names."""
    parser = make_parser("validate", __doc__.split("\n")[0])
    args = parser.parse_args()
    check_config(parser, args)
    # They are slow to import, but --help and errors in arguments should be fast.
    from data_prep.checks import check
    from data_prep.prepared import open_configs

    cls = data_prep.builder_class(args.dataset)
    data_dir = cls.data_dir_of(args.config, args.data_dir, args.manual_dir)
    differences = 0
    for builder in open_configs(args.dataset, args.config, data_dir):
        cells = [["", "found", "expected", "", ""]]
        for row in check(builder):
            verdict = "differs" if row.differs else "" if row.expected is None else "ok"
            # Hashes have 64 digits.
            figures = ["-" if each is None else str(each)[:16] for each in row[1:3]]
            cells.append([row.name, *figures, verdict, row.note])
            differences += row.differs
        table = align_columns(cells, right={1, 2})
        print(f"{args.dataset}/{builder.builder_config.name} in {builder.data_dir}\n{table}\n")
    print(f"{differences or 'no'} figures differ")
    if differences:
        sys.exit(1)


if __name__ == "__main__":
    main()
