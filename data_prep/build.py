"""Prepares a dataset: `python -m data_prep.build --dataset=flickr8k --manual_dir=FOLDER`.

`tfds build data_prep/flickr8k` does the same, but TFDS's own command needs apache-beam.
"""

import argparse
import sys
from typing import Any

import tensorflow_datasets as tfds
from etils import epath

import data_prep
from data_prep.schema import UnexpectedFilesError


def build(
    name: str, config: str, *, data_dir: str | None = None, manual_dir: str | None = None
) -> tfds.core.DatasetBuilder:
    """Prepares one builder config of a dataset, unless that was done before.

    TFDS writes into a folder of its own and renames it at the end, so a killed build leaves nothing
    that could be taken for a dataset, and of several processes that build at once one wins.

    Args:
      name: key of `data_prep.BUILDERS`.
      config: TFDS builder config.
      data_dir: where TFDS keeps datasets.
      manual_dir: folder of files fetched by hand, for the datasets that have instructions.

    Returns:
      A builder whose records can be read.

    Raises:
      FileNotFoundError: `manual_dir`, or a file that should be in it, is not there.
      UnexpectedFilesError: files do not hold the published dataset.
    """

    if manual_dir and not any(epath.Path(manual_dir).glob("*")):
        raise FileNotFoundError(f"{manual_dir} does not exist or is empty")

    def make_builder() -> Any:
        return data_prep.builder_class(name)(config=config, data_dir=data_dir)

    settings = tfds.download.DownloadConfig(manual_dir=manual_dir)
    try:
        make_builder().download_and_prepare(download_config=settings)
    except OSError:
        # Another process may have renamed its own copy into place first: the two are equal.
        if not make_builder().is_prepared():
            raise
    return make_builder()


def main() -> None:
    """Prepares what the command line names."""
    parser = argparse.ArgumentParser(description="Prepares a dataset for reading by index.")
    parser.add_argument("--dataset", required=True, choices=sorted(data_prep.BUILDERS))
    parser.add_argument("--config", help="one builder config; by default all of them")
    parser.add_argument("--data_dir", help="where datasets are kept; by default where TFDS does")
    parser.add_argument("--manual_dir", help="folder of the files that were fetched by hand")
    args = parser.parse_args()
    known = list(data_prep.builder_class(args.dataset).builder_configs)
    if args.config and args.config not in known:
        parser.error(f"{args.dataset} has no config {args.config!r}; known: {', '.join(known)}")
    for config in [args.config] if args.config else known:
        try:
            builder = build(
                args.dataset, config, data_dir=args.data_dir, manual_dir=args.manual_dir
            )
        except (FileNotFoundError, UnexpectedFilesError) as error:
            sys.exit(f"Error: {error}")
        print(f"{args.dataset}/{config}: {builder.data_dir}")


if __name__ == "__main__":
    main()
