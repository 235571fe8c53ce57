"""Checks a prepared dataset: `python -m data_prep.validate --dataset=flickr8k --data_dir=FOLDER`.

Prints one table per builder config. The exit code is 1 if anything is not as expected.
"""

import argparse
import json
import sys
from typing import Any

import data_prep
from data_prep.command_line import check_config, make_parser
from xmodal.core import console
from xmodal.core.errors import NotPreparedError, UnexpectedFilesError


@console.readable_errors(NotPreparedError, UnexpectedFilesError)
def main() -> None:
    """Checks the dataset that the command line names."""
    args = _parse()
    # They are slow to import, but --help and errors in arguments should be fast.
    from data_prep import checks
    from data_prep.prepared import open_configs

    cls = data_prep.builder_class(args.dataset)
    data_dir = cls.data_dir_of(args.config, args.data_dir, args.manual_dir)
    found, differs = list[dict[str, Any]](), False
    for builder in open_configs(args.dataset, args.config, data_dir):
        rows = checks.check(builder, check_images=not args.skip_images)
        name = f"{args.dataset}/{builder.builder_config.name}"
        found.append({"dataset": name, "rows": [row._asdict() for row in rows]})
        differs |= any(row.differs for row in rows)
        if not args.json:
            print(f"{name} in {builder.data_dir}\n{checks.table(rows)}", end="\n\n", flush=True)
    if args.json:
        print(json.dumps(found, indent=1))
    if differs:
        sys.exit(1)


def _parse() -> argparse.Namespace:
    parser = make_parser("validate", __doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--skip_images",
        action="store_true",
        help="do not decode images again; their bytes are still hashed and compared",
    )
    args = parser.parse_args()
    check_config(parser, args)
    return args


if __name__ == "__main__":
    main()
