"""Prepares a dataset: `python -m data_prep.build --dataset=flickr8k --manual_dir=FOLDER`.

`tfds build data_prep/flickr8k` does the same, but TFDS's own command needs apache-beam.
"""

import argparse
import contextlib
import io
import sys
from typing import TYPE_CHECKING, Any

import data_prep
from data_prep.building.record_counts import counts_table
from data_prep.captioned_images.hub_datasets import local_folder
from data_prep.command_line import make_parser, parse
from xmodal.core import console
from xmodal.core.errors import UnexpectedFilesError

if TYPE_CHECKING:
    import tensorflow_datasets as tfds


def build(
    name: str,
    config: str,
    *,
    data_dir: str | None = None,
    manual_dir: str | None = None,
    min_kept: float | None = None,
    beam_pipeline_options: str | None = None,
) -> "tfds.core.DatasetBuilder":
    """Prepares one builder config of a dataset, unless it is already prepared.

    TFDS writes to a temporary folder and renames it at the end, so a killed build leaves nothing
    that looks like a dataset, and if several processes build at once, one wins.

    Args:
      name: key of `data_prep.BUILDERS`.
      config: TFDS builder config.
      data_dir: where TFDS keeps datasets.
      manual_dir: folder of manually downloaded files, for the datasets that have instructions; see
        `hub_datasets.local_folder`.
      min_kept: fraction of the records of every split that must be usable, 0 to 1; by default the
        fraction that the dataset requires.
      beam_pipeline_options: options for a build with Apache Beam workers, separated by commas:
        "runner=DataflowRunner,project=NAME"; None for a build in this process. The records are the
        same.

    Returns:
      A builder whose records can be read.

    Raises:
      FileNotFoundError: `manual_dir`, or a file that should be in it, does not exist.
      UnexpectedFilesError: the files are not the published dataset, or too small a part of it.
      OSError: the dataset cannot be written.
      ModuleNotFoundError: Apache Beam is requested but not installed.
    """
    import tensorflow_datasets as tfds  # Slow to import.

    manual_dir = local_folder(manual_dir) if manual_dir else None
    for flag, folder in {"data_dir": data_dir, "manual_dir": manual_dir}.items():
        if folder and "://" in folder:
            raise UnexpectedFilesError(
                f"--{flag}={folder} is in an object store; a build needs a folder mounted on this "
                "machine, but a prepared dataset may be copied there"
            )
    cls = data_prep.builder_class(name)
    data_dir = cls.data_dir_of(config, data_dir, manual_dir)

    def make_builder() -> Any:
        return cls(config=config, data_dir=data_dir, min_kept=min_kept)

    settings = tfds.download.DownloadConfig(
        manual_dir=manual_dir, beam_options=_beam_options(beam_pipeline_options)
    )
    tfds.display_progress_bar(sys.stderr.isatty())
    try:
        # TFDS prints that it is downloading, which it never does here.
        with contextlib.redirect_stdout(io.StringIO()):
            make_builder().download_and_prepare(download_config=settings)
    except OSError:
        # Another process may have renamed its own, identical copy into place first.
        if not make_builder().is_prepared():
            raise
    return make_builder()


def _beam_options(flags: str | None) -> Any:
    """Beam's `PipelineOptions`, written as in `tfds build`."""
    if not flags:
        return None
    from apache_beam.options.pipeline_options import PipelineOptions

    return PipelineOptions(flags=[f"--{flag}" for flag in flags.split(",")])


def _parse() -> argparse.Namespace:
    parser = make_parser("build", "Prepares a dataset for reading by index.")
    parser.add_argument(
        "--min_kept",
        type=float,
        help="fraction of the records of every split that must be usable (0 to 1); "
        "by default the fraction that the dataset requires",
    )
    parser.add_argument(
        "--allow_missing",
        dest="min_kept",
        action="store_const",
        const=0.0,
        help="build whatever share of the records is usable, as --min_kept=0",
    )
    parser.add_argument(
        "--beam_pipeline_options",
        metavar="NAME=VALUE,...",
        help="options for a build with Apache Beam workers: its runner, the number of workers, ... "
        "(datasets of links)",
    )
    args = parse(parser)
    if args.min_kept is not None and not 0 <= args.min_kept <= 1:
        parser.error(f"--min_kept is {args.min_kept}; it must be between 0 and 1")
    if args.beam_pipeline_options and not data_prep.builder_class(args.dataset).READ_IN_PARTS:
        parser.error(
            f"--beam_pipeline_options is for datasets of links; {args.dataset} is built in one "
            "process without this option"
        )
    return args


@console.readable_errors(ModuleNotFoundError)
def main() -> None:
    """Prepares the dataset that the command line names."""
    args = _parse()
    known = list(data_prep.builder_class(args.dataset).builder_configs)
    for config in [args.config] if args.config else known:
        builder = build(
            args.dataset,
            config,
            data_dir=args.data_dir,
            manual_dir=args.manual_dir,
            min_kept=args.min_kept,
            beam_pipeline_options=args.beam_pipeline_options,
        )
        if builder.info.splits:
            print(f"{args.dataset}/{config}: {builder.data_dir}")
            if "kept" in (builder.info.metadata or {}):
                print(counts_table(builder.info.metadata))
        elif args.config:
            print(f"{args.dataset}/{config} is empty: the files it needs are missing.")


if __name__ == "__main__":
    main()
