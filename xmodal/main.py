"""Trains a dual encoder: `python -m xmodal.main --config=configs/quickstart.py`.

The same command continues a run that was stopped or killed.
"""

import os

from absl import app, flags, logging
from ml_collections import config_flags

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, optionally with an argument: FILE.py:ARGUMENT."
)
WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run, local or gs://; by default runs/NAME of the config."
)
DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Check everything, compile, print parameters, memory and FLOPs, then stop."
)


def main(argv: list[str]) -> None:
    """Connects the processes and hands over to the loop."""
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; everything is a flag.")
    # Imported here so that --help and a mistyped flag answer at once.
    from xmodal.training import loop, sharding

    sharding.initialize_processes()
    config = CONFIG.value
    workdir = WORKDIR.value or os.path.join("runs", config.name)
    logging.info("Workdir: %s", workdir)
    loop.train(config, workdir, dry_run=DRY_RUN.value)


def run() -> None:
    """Entry point: flags, log level, errors of the user without a stack trace."""
    flags.mark_flag_as_required("config")
    logging.set_verbosity(logging.INFO)
    app.run(main)


if __name__ == "__main__":
    run()
