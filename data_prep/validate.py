"""Checks a prepared dataset: `python -m data_prep.validate --dataset=flickr8k --data_dir=FOLDER`.

Prints one table per builder config. The exit code is 1 if anything is not as expected, and 2 if
there is nothing to check.
"""

import argparse
import sys

import data_prep
from data_prep.command_line import check_config, run
from xmodal.core.errors import NotPreparedError, UnexpectedFilesError


def main() -> None:
    """Checks the dataset that the command line names."""
    args = _parse()
    # They are slow to import, but --help and errors in arguments should be fast.
    from data_prep import checks
    from data_prep.checks import figure_rows
    from data_prep.checks.prepared_dataset import Prepared
    from data_prep.prepared import open_configs

    found = []
    cls = data_prep.builder_class(args.dataset)
    try:
        args.data_dir = cls.data_dir_of(args.config, args.data_dir, args.manual_dir)
        for builder in open_configs(args.dataset, args.config, args.data_dir):
            dataset = Prepared(builder, args.data_dir, check_images=not args.skip_images)
            name = f"{args.dataset}/{builder.builder_config.name}"
            found.append((name, checks.check(dataset)))
            if not args.json:
                print(f"{name} in {builder.data_dir}")
                print(figure_rows.table(found[-1][1]), end="\n\n", flush=True)
    except (NotPreparedError, FileNotFoundError, UnexpectedFilesError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    if args.json:
        print(figure_rows.as_json(found))
    if any(figure_rows.has_differences(found_rows) for _, found_rows in found):
        sys.exit(1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.validate", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--dataset", required=True, choices=sorted(data_prep.BUILDERS))
    parser.add_argument("--config", help="one builder config; by default all prepared ones")
    parser.add_argument("--data_dir", help="folder of prepared datasets; by default TFDS's own")
    parser.add_argument("--manual_dir", help="for files of your own: their folder")
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
    run(main)
