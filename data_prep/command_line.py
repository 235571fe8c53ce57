"""Parts that several commands share."""

import argparse
import sys
from collections.abc import Callable

import data_prep


def run(main: Callable[[], None]) -> None:
    """Runs a command; on Ctrl-C it exits with one line."""
    try:
        main()
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)  # 128 + SIGINT, as in shells.


def check_config(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Exits with an error if --config is not a builder config of --dataset.

    Args:
      parser: parser of the command line.
      args: parsed arguments, with `config` and `dataset`, which may be None.
    """
    if args.config and not args.dataset:
        parser.error("--config belongs to --dataset")
    if args.config:
        known = list(data_prep.builder_class(args.dataset).builder_configs)
        if args.config not in known:
            parser.error(f"{args.dataset} has no config {args.config!r}; known: {', '.join(known)}")
