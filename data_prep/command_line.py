"""Arguments that several commands share."""

import argparse

import data_prep


def make_parser(name: str, description: str) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of a dataset.

    Args:
      name: module of the command.
      description: what it does.
    """
    parser = argparse.ArgumentParser(prog=f"python -m data_prep.{name}", description=description)
    parser.add_argument("--dataset", required=True, choices=sorted(data_prep.BUILDERS))
    parser.add_argument("--config", help="one builder config; by default all")
    parser.add_argument("--data_dir", help="folder of prepared datasets; by default TFDS's own")
    parser.add_argument("--manual_dir", help="folder of the manually downloaded files")
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Returns the arguments; exits with an error if --config is not a config of --dataset."""
    args = parser.parse_args()
    if args.config:
        known = list(data_prep.builder_class(args.dataset).builder_configs)
        if args.config not in known:
            parser.error(f"{args.dataset} has no config {args.config!r}; known: {', '.join(known)}")
    return args
